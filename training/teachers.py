"""The encoders that teach: how each is used, and the sum of their similarities as one vector.

The similarity that a student learns is the sum of the teachers' similarities, each divided by its spread over unrelated
texts. So it is the inner product of the teachers' scaled vectors side by side, and the vectors of `Target` are the
projection of these that keeps the inner products best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from flat import FlatEncoder, embed, load_encoder
from ids import flat_ids
from tokens import Tokens

_SEARCH = "Represent this sentence for searching relevant passages: "


@dataclass(frozen=True)
class Use:
    pool: str = "mean"
    question: str = ""
    """What comes before a question."""
    passage: str = ""


USES = {
    "bge": Use("first", _SEARCH),
    "arctic": Use("first", _SEARCH),
    "e5": Use("mean", "query: ", "passage: "),
    "gte": Use(),
    "mpnet": Use(),
    "minilm": Use(),
}


class Teacher:
    def __init__(self, folder: Path, device: str) -> None:
        use = USES.get(folder.name, Use())
        self.encoder: FlatEncoder = load_encoder(folder, device, pool=use.pool)
        if device == "cuda":
            self.encoder.half()
        self._before = {
            asked: torch.from_numpy(flat_ids([text], folder / "tokenizer.json", 64)[0]).to(device) if text else None
            for asked, text in ((True, use.question), (False, use.passage))
        }

    def embed(self, tokens: Tokens, asked: bool) -> Tensor:
        """Vectors of texts, as questions or as passages."""
        return embed(self.encoder, tokens, self._before[asked])


@dataclass(frozen=True)
class Target:
    """The vectors that a student learns."""

    scales: Mapping[str, float]
    """What a teacher's vectors are multiplied by."""
    means: Mapping[str, Tensor]
    """What is subtracted from a teacher's vectors first."""
    projection: Tensor

    def joined(self, vectors: Mapping[str, Tensor]) -> Tensor:
        """The teachers' vectors of the same texts, side by side."""
        return torch.cat([(vectors[k].float() - self.means[k]) * scale for k, scale in self.scales.items()], 1)

    def vectors(self, vectors: Mapping[str, Tensor], together: int = 65_536) -> Tensor:
        parts = zip(*(vectors[name].split(together) for name in self.scales), strict=True)
        rows = (self.joined(dict(zip(self.scales, part, strict=True))) @ self.projection for part in parts)
        return torch.cat([functional.normalize(row, dim=1).half() for row in rows])

    @classmethod
    def learn(
        cls, questions: Mapping[str, Tensor], passages: Mapping[str, Tensor], width: int, centred: bool
    ) -> Target:
        """Learns scales and projection from vectors of questions and of passages, as many of each, in random order."""
        scales, means = {}, {}
        for name, q in questions.items():
            p = passages[name].float()
            mean = (q.float().mean(0) + p.mean(0)) / 2 if centred else torch.zeros_like(p[0])
            spread = ((q.float() - mean) * (p - mean)).sum(1).std()  # unrelated texts: the order is random
            scales[name], means[name] = float(spread**-0.5), mean
        blank = cls(scales, means, torch.empty(0))
        gram = sum(joined.T @ joined for joined in (blank.joined(questions), blank.joined(passages)))
        return cls(scales, means, torch.linalg.eigh(gram.double()).eigenvectors[:, -width:].flip(1).float())

    def turned(self, targets: Tensor, start: Tensor) -> Target:
        """The same inner products, turned so that the vectors are near those that a student starts from."""
        u, _, v = torch.linalg.svd(targets.float().T @ start.float())
        return Target(self.scales, self.means, self.projection @ (u @ v))


def first_found(questions: Tensor, passages: Tensor, positive: Sequence[int] | Tensor, depth: int = 10) -> float:
    """The mean reciprocal rank of each question's passage among all."""
    ranks = []
    for q, p in zip(questions.float().split(500), torch.as_tensor(positive).split(500), strict=True):
        scores = q @ passages.float().T
        rank = (scores > scores.gather(1, p[:, None].to(scores.device))).sum(1) + 1
        ranks.append(torch.where(rank <= depth, 1 / rank, 0.0))
    return float(torch.cat(ranks).mean())
