"""Runs a GGUF model in this process with llama.cpp, one answer at a time. A grammar enforces the schema."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from surefind.errors import AnswerError, MissingPartError, UsageError
from surefind.llm.settings import LLMSettings
from surefind.prompts.values import Completion, Request

_HEAD = 1 << 20
_CONTEXT = 8192
"""Tokens of prompt and answer together. Memory is allocated for all of them, so this is less than models can read."""


class GGUFChat:
    def __init__(self, path: Path, settings: LLMSettings) -> None:
        self._path = path
        if not self._path.is_file():
            where = "" if self._path.is_absolute() else f" in {Path.cwd()}"
            raise UsageError(f"There is no model file {self._path}{where}. Write the model as 'gguf:PATH'.")
        with self._path.open("rb") as file:
            digest = hashlib.blake2b(file.read(_HEAD), digest_size=8).hexdigest()
        self.fingerprint = f"gguf:{digest}:{self._path.stat().st_size}"
        self._timeout = settings.timeout
        self._lock = threading.Lock()
        self._llama: Any = None
        self._scores = False

    def ask(self, request: Request, total: float) -> Completion:
        with self._turn(total) as left:
            llama = self._loaded(bool(request.logprobs))
            call = {
                "messages": [{"role": m.role, "content": m.content} for m in request.messages],
                "max_tokens": request.max_tokens,
                "temperature": request.temperature,
                "seed": 0,
                "response_format": _grammar(request) if request.schema is not None else None,
            }
            try:
                made = _scored(llama, call, request) if request.logprobs else self._streamed(llama, call, left)
            except (ValueError, RuntimeError) as error:
                raise AnswerError(f"The model {self._path.name} cannot answer: {error}. Shorten the prompt.") from None
        return made

    def close(self) -> None:
        """Frees the model. A model that is still answering (after Ctrl-C) ends with the program instead."""
        if self._lock.acquire(blocking=False):
            try:
                if self._llama is not None:
                    self._llama.close()
                    self._llama = None
            finally:
                self._lock.release()

    @contextlib.contextmanager
    def _turn(self, total: float) -> Iterator[float]:
        """Waits until other threads have their answers; yields the seconds that are then left of `total`."""
        deadline = time.monotonic() + total
        if not self._lock.acquire(timeout=max(0.0, min(total, threading.TIMEOUT_MAX))):
            raise AnswerError(
                f"The model {self._path.name} was busy with other calls for {total:.3g} s. Raise total_timeout, or "
                "make fewer calls at a time."
            )
        try:
            yield deadline - time.monotonic()
        finally:
            self._lock.release()

    def _streamed(self, llama: Any, call: dict[str, Any], total: float) -> Completion:
        """Generates token by token, because llama.cpp can be stopped only between two tokens."""
        seconds = min(total, self._timeout)
        deadline = time.monotonic() + seconds
        parts: list[str] = []
        end = None
        for chunk in llama.create_chat_completion(**call, stream=True):
            choice = chunk["choices"][0]
            parts.append(choice["delta"].get("content") or "")
            end = choice.get("finish_reason")
            if time.monotonic() > deadline:
                raise AnswerError(
                    f"The model {self._path.name} did not answer within {seconds:.3g} s. Raise timeout, or use "
                    "a smaller model."
                )
        out = sum(map(bool, parts))
        return Completion("".join(parts), max(0, llama.n_tokens - out), out, cut=end == "length")

    def _loaded(self, scores: bool) -> Any:
        """Loads the model. Log-probabilities (`scores`) cost memory and time, so they are enabled when first needed."""
        if self._llama is None or (scores and not self._scores):
            try:
                import llama_cpp
            except ModuleNotFoundError:
                raise MissingPartError(
                    "GGUF models need the package llama-cpp-python. Install it with pip install 'surefind[gguf]'; this "
                    "builds it, which takes a C++ compiler and CMake."
                ) from None
            try:
                self._llama = llama_cpp.Llama(str(self._path), n_ctx=_CONTEXT, logits_all=scores, verbose=False)
            except (ValueError, RuntimeError) as error:
                raise UsageError(f"{self._path} cannot be loaded as a GGUF model: {error}. Check the file.") from None
            self._scores = scores
        return self._llama


def _scored(llama: Any, call: dict[str, Any], request: Request) -> Completion:
    """Generates in one go, which gives log-probabilities: such answers are a word or two."""
    answer = llama.create_chat_completion(**call, logprobs=True, top_logprobs=request.logprobs)
    choice, usage = answer["choices"][0], answer["usage"]
    tops = [token["top_logprobs"] for token in ((choice.get("logprobs") or {}).get("content") or [])]
    logprobs = tuple({top["token"]: float(top["logprob"]) for top in row} for row in tops)
    text, cut = choice["message"]["content"] or "", choice.get("finish_reason") == "length"
    return Completion(text, usage["prompt_tokens"], usage["completion_tokens"], logprobs=logprobs, cut=cut)


def _grammar(request: Request) -> dict[str, Any]:
    return {"type": "json_object", "schema": dict(request.schema or {})}
