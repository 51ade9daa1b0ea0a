"""A model in this process: llama.cpp on a GGUF file. One answer at a time; a schema becomes a grammar that holds it."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import Any

from surefind.errors import AnswerError, MissingPartError, UsageError
from surefind.llm.address import Address
from surefind.llm.settings import LLMSettings
from surefind.llm.values import Completion, Request

_HEAD = 1 << 20


class GGUFChat:
    def __init__(self, address: Address, settings: LLMSettings) -> None:
        self._path = Path(address.model).expanduser()
        if not self._path.is_file():
            raise UsageError(f"There is no model file {self._path}. Write the model as 'gguf:PATH'.")
        with self._path.open("rb") as file:
            digest = hashlib.blake2b(file.read(_HEAD), digest_size=8).hexdigest()
        self.fingerprint = f"gguf:{digest}:{self._path.stat().st_size}"
        self._lock = threading.Lock()
        self._llama: Any = None

    def ask(self, request: Request, total: float) -> Completion:
        with self._lock:
            try:
                answer = self._loaded().create_chat_completion(
                    messages=[{"role": m.role, "content": m.content} for m in request.messages],
                    max_tokens=request.max_tokens,
                    temperature=request.temperature,
                    seed=0,
                    **({"response_format": _grammar(request)} if request.schema is not None else {}),
                    **({"logprobs": True, "top_logprobs": request.logprobs} if request.logprobs else {}),
                )
            except (ValueError, RuntimeError) as error:
                raise AnswerError(
                    f"The model {self._path.name} cannot answer this: {error}. Shorten the prompt."
                ) from None
        choice, usage = answer["choices"][0], answer["usage"]
        text = choice["message"]["content"] or ""
        if not text.strip():
            raise AnswerError(f"The model {self._path.name} gave an empty answer. Try another model.")
        tops = [token["top_logprobs"] for token in ((choice.get("logprobs") or {}).get("content") or [])]
        logprobs = tuple({top["token"]: float(top["logprob"]) for top in row} for row in tops)
        cut = choice.get("finish_reason") == "length"
        return Completion(text, usage["prompt_tokens"], usage["completion_tokens"], logprobs=logprobs, cut=cut)

    def close(self) -> None:
        with self._lock:
            if self._llama is not None:
                self._llama.close()
                self._llama = None

    def _loaded(self) -> Any:
        if self._llama is None:
            try:
                import llama_cpp
            except ModuleNotFoundError:
                raise MissingPartError(
                    "Models in this process need the package llama-cpp-python, built when it is installed (by a C++ "
                    "compiler and CMake): pip install 'surefind[gguf]'."
                ) from None
            self._llama = llama_cpp.Llama(str(self._path), n_ctx=0, logits_all=True, verbose=False)
        return self._llama


def _grammar(request: Request) -> dict[str, Any]:
    return {"type": "json_object", "schema": dict(request.schema or {})}
