"""The encoders that teach, and how each is used: what comes before a question or a passage, and what its vector is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from flat import FlatEncoder, embed, load_encoder
from ids import flat_ids
from tokens import Tokens
from transformer import Shape

_SEARCH = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True)
class Use:
    pooling: str = "mean"
    question: str = ""
    """What comes before a question."""
    passage: str = ""


USES = {
    "bge": Use("cls", _SEARCH),
    "arctic": Use("cls", _SEARCH),
    "e5": Use("mean", "query: ", "passage: "),
    "gte": Use(),
    "mpnet": Use(),
    "minilm": Use(),
}


class Teacher:
    def __init__(self, folder: Path, device: str) -> None:
        use = USES.get(folder.name, Use())
        self.encoder: FlatEncoder = load_encoder(folder, device, pooling=use.pooling)
        if device == "cuda":
            self.encoder.half()
        self._before = {
            asked: torch.from_numpy(flat_ids([text], folder / "tokenizer.json", 64)[0]).to(device) if text else None
            for asked, text in ((True, use.question), (False, use.passage))
        }

    def embed(self, tokens: Tokens, asked: bool) -> Tensor:
        """Vectors of texts, as questions or as passages."""
        return embed(self.encoder, tokens, self._before[asked])


def spread_of(questions: Tensor, passages: Tensor) -> float:
    """The spread of similarities of unrelated texts. The texts are in random order, and as many on both sides."""
    return float((questions.float() * passages.float()).sum(1).std())


def load_teacher(work: Path, name: str, device: str) -> Teacher:
    """Reads a folder in WORK, or the trained student NAME.pt, which has the tokenizer of WORK/student."""
    if not name.endswith(".pt"):
        return Teacher(work / name, device)
    student = Teacher(work / "student", device)
    state = torch.load(work / name, device)
    layers = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("layers."))
    student.encoder = FlatEncoder(Shape(**{**vars(student.encoder.shape), "layers": layers})).to(device).eval()
    student.encoder.load_state_dict(state)
    return student
