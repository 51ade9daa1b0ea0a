"""Runs BERT and MPNet on texts of very different lengths without padding.

The tokens of a batch lie in one flat array, block by block; the texts of a block have the same length. Matrix products
run once over all tokens, attention runs once per block and needs no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pack_weights import read_packed
from surefind.lab.train.network import Layer, attention
from tokens import CLS, SEP, Tokens, in_family
from transformer import Shape, Transformer, fitting, upstream_state

Blocks = tuple[tuple[int, int], ...]
"""The number of texts and the length of each block."""


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    places: Tensor
    """The position of each token in its text."""
    blocks: Blocks

    @classmethod
    def of(cls, parts: Sequence[Tensor]) -> Batch:
        """Joins blocks of ids, each of shape (texts, length)."""
        return cls(
            torch.cat([ids.reshape(-1) for ids in parts]),
            torch.cat([torch.arange(ids.size(1), device=ids.device).repeat(len(ids)) for ids in parts]),
            tuple((ids.size(0), ids.size(1)) for ids in parts),
        )


class FlatLayer(Layer):
    def forward(self, x: Tensor, blocks: Blocks, biases: Sequence[Tensor | None]) -> Tensor:  # type: ignore[override]
        three = (self.query, self.key, self.value)
        joined = functional.linear(x, torch.cat([p.weight for p in three]), torch.cat([p.bias for p in three]))
        context, first = [], 0
        for (rows, length), bias in zip(blocks, biases, strict=True):
            part = joined[first : first + rows * length].view(rows, length, 3, self.heads, -1)
            query, key, value = part.permute(2, 0, 3, 1, 4)
            found = attention(query, key, value, bias)
            context.append(found.transpose(1, 2).reshape(rows * length, -1))
            first += rows * length
        return self.after_attention(x, torch.cat(context))


class FlatEncoder(Transformer):
    """A sentence encoder. Its weights have the names of `Transformer`."""

    def __init__(self, shape: Shape, pooling: str = "mean") -> None:
        """`pooling`: what becomes the vector of a text, the `mean` of its tokens' states or that of [CLS] (`cls`)."""
        super().__init__(shape, pooling=pooling)
        self.layers = nn.ModuleList(FlatLayer(shape) for _ in range(shape.layers))

    def forward(self, batch: Batch) -> Tensor:  # type: ignore[override]
        """The vector of each text, of unit length."""
        x = self.words(in_family(batch.ids, self.shape.family)) + self.positions(batch.places + self.first_position)
        x = self.norm(x if self.types is None else x + self.types.weight[0])
        biases = [self._bias(*block, x) for block in batch.blocks]
        for layer in self.layers:
            x = layer(x, batch.blocks, biases)
        return self.vectors(self._pooled(x, batch.blocks))

    def _bias(self, rows: int, length: int, x: Tensor) -> Tensor | None:
        return None if self.relative is None else self.relative_bias(length, x).expand(rows, -1, -1, -1)

    def _pooled(self, states: Tensor, blocks: Blocks) -> Tensor:
        parts = states.split([rows * length for rows, length in blocks])
        texts = [part.view(rows, length, -1) for part, (rows, length) in zip(parts, blocks, strict=True)]
        return torch.cat([one[:, 0].float() if self.pooling == "cls" else one.float().mean(1) for one in texts])


def block_of(tokens: Tokens, at: Tensor, length: int, before: Tensor | None = None) -> Tensor:
    """Ids of [CLS] text [SEP] for texts of `length` tokens, cut there; `before`: tokens that come before every text."""
    place = torch.arange(length, device=at.device)[None]
    ids = tokens.flat[tokens.start[at][:, None] + place].long()
    edge = torch.full_like(ids[:, :1], CLS)
    parts = [edge, ids, torch.full_like(edge, SEP)]
    if before is not None and len(before):
        parts.insert(1, before[None].expand(len(at), -1))
    return torch.cat(parts, 1)


def load_encoder(folder: Path, device: str, layers: Sequence[int] | None = None, pooling: str = "mean") -> FlatEncoder:
    """Reads an encoder; `layers`: only these layers of it."""
    shape = Shape.read(folder / "config.json")
    state = upstream_state(read_packed(folder))
    if layers is not None:
        state = picked(state, layers)
        shape = Shape(**{**vars(shape), "layers": len(layers)})
    encoder = FlatEncoder(shape, pooling)
    encoder.load_state_dict(fitting(encoder, state))
    return encoder.to(device).eval()


def picked(state: dict[str, Tensor], layers: Sequence[int]) -> dict[str, Tensor]:
    """The weights of some layers, numbered from 0 again, and everything that is not in a layer."""
    found = {key: value for key, value in state.items() if not key.startswith("layers.")}
    for new, old in enumerate(layers):
        first = f"layers.{old}."
        found |= {f"layers.{new}.{k.removeprefix(first)}": v for k, v in state.items() if k.startswith(first)}
    return found


@torch.no_grad()
def embed(
    encoder: FlatEncoder, tokens: Tokens, before: Tensor | None = None, most: int = 256, together: int = 131_072
) -> Tensor:
    """The vectors of all texts, about `together` tokens at a time, texts of one length together."""
    room = most - 2 - (0 if before is None else len(before))
    lengths = tokens.length.clamp(max=room).cpu().numpy()
    order = np.argsort(-lengths, kind="stable")
    ends = np.flatnonzero(np.diff(lengths[order], append=-1)) + 1
    found: list[Tensor] = []
    for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        length = int(lengths[order[first]])
        parts = min(end - first, max(1, (end - first) * (length + 2) // together))
        for at in np.array_split(order[first:end], parts):
            ids = block_of(tokens, torch.from_numpy(at).to(tokens.flat.device), length, before)
            found.append(encoder(Batch.of([ids])).half())
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return torch.cat(found)[torch.from_numpy(back).to(tokens.flat.device)]
