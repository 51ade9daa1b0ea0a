"""Runs BERT on a batch of texts of very different lengths with little padding.

The tokens of a batch lie in one flat array, block by block; the texts of a block are padded to one length. Matrix
products run once over all tokens, attention runs once per block. If the blocks always have the same shapes, so has
everything else, and `torch.compile` can be used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from pack_weights import read_packed
from tokens import CLS, SEP, Tokens
from transformer import Layer, Shape, Transformer, upstream_state

Blocks = tuple[tuple[int, int], ...]
"""The number of texts and the padded length of each block."""


@dataclass(frozen=True)
class Batch:
    ids: Tensor
    places: Tensor
    """The position of each token in its text."""
    mask: Tensor
    """False for padding."""
    biases: tuple[Tensor, ...]
    """For each block, what is added to attention scores: a very low number for padding."""
    blocks: Blocks

    @classmethod
    def of(cls, parts: Sequence[tuple[Tensor, Tensor]], kind: torch.dtype = torch.float32) -> Batch:
        """Joins blocks of ids and masks, each of shape (texts, length). `kind`: the precision of attention."""
        return cls(
            torch.cat([ids.reshape(-1) for ids, _ in parts]),
            torch.cat([torch.arange(ids.size(1), device=ids.device).repeat(len(ids)) for ids, _ in parts]),
            torch.cat([mask.reshape(-1) for _, mask in parts]),
            tuple(
                torch.zeros(mask.shape, device=mask.device, dtype=kind).masked_fill(~mask, -1e4)[:, None, None, :]
                for _, mask in parts
            ),
            tuple((ids.size(0), ids.size(1)) for ids, _ in parts),
        )


class FlatLayer(Layer):
    def forward(self, x: Tensor, biases: tuple[Tensor, ...], blocks: Blocks) -> Tensor:  # type: ignore[override]
        three = (self.query, self.key, self.value)
        joined = functional.linear(x, torch.cat([p.weight for p in three]), torch.cat([p.bias for p in three]))
        context, first = [], 0
        for (rows, length), bias in zip(blocks, biases, strict=True):
            part = joined[first : first + rows * length].view(rows, length, 3, self.heads, -1)
            query, key, value = part.permute(2, 0, 3, 1, 4)
            found = functional.scaled_dot_product_attention(
                query, key, value, attn_mask=bias.expand(-1, self.heads, length, -1)
            )
            context.append(found.transpose(1, 2).reshape(rows * length, -1))
            first += rows * length
        x = self.attention_norm(self.out(torch.cat(context)) + x)
        return self.norm(self.down(functional.gelu(self.up(x))) + x)


class FlatEncoder(Transformer):
    """A sentence encoder. Its weights have the names of `Transformer`."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, pools=False)
        self.layers = nn.ModuleList(FlatLayer(shape, 0.0) for _ in range(shape.layers))

    def embedded(self, batch: Batch) -> Tensor:
        """The input of the first layer."""
        found: Tensor = self.norm(self.words(batch.ids) + self.positions(batch.places) + self.types.weight[0])
        return found

    def forward(self, x: Tensor, biases: tuple[Tensor, ...], blocks: Blocks) -> list[Tensor]:  # type: ignore[override]
        """The states of all tokens after each layer."""
        states = []
        for layer in self.layers:
            x = layer(x, biases, blocks)
            states.append(x)
        return states

    def vectors(self, states: Tensor, batch: Batch) -> Tensor:
        """The vector of each text: the mean of its tokens, of unit length."""
        return functional.normalize(means(states, batch), dim=1)


class Joint(FlatEncoder):
    """An encoder whose vectors are those of several teachers, side by side, of equal weight."""

    def __init__(self, shape: Shape, teachers: int) -> None:
        super().__init__(shape)
        self.teachers = teachers
        self.head = nn.Linear(shape.width, teachers * shape.width)
        with torch.no_grad():  # the first teacher is the one that the layers come from
            self.head.weight[: shape.width] = torch.eye(shape.width)
            self.head.bias.zero_()

    def vectors(self, states: Tensor, batch: Batch) -> Tensor:
        parts = self.head(means(states, batch)).float().view(-1, self.teachers, self.shape.width)
        return functional.normalize(parts, dim=2).flatten(1) / self.teachers**0.5


def means(states: Tensor, batch: Batch) -> Tensor:
    """The mean state of each text's tokens."""
    kept = batch.mask.unsqueeze(1).float()
    found, first = [], 0
    for rows, length in batch.blocks:
        some = slice(first, first + rows * length)
        sums = (states[some].float() * kept[some]).view(rows, length, -1).sum(1)
        found.append(sums / kept[some].view(rows, length, 1).sum(1))
        first += rows * length
    return torch.cat(found)


def block_of(tokens: Tokens, at: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Ids and mask of [CLS] text [SEP], padded or cut to `length`."""
    kept = tokens.length[at].clamp(max=length - 2)
    place = torch.arange(length, device=at.device)[None]
    ids = tokens.flat[(tokens.start[at][:, None] + place - 1).clamp(0, len(tokens.flat) - 1)].long()
    ids = torch.where(place <= kept[:, None], ids, SEP)
    mask = place < kept[:, None] + 2
    return torch.where(place == 0, CLS, ids).masked_fill(~mask, 0), mask


def load_encoder(folder: Path, device: str, layers: Sequence[int] | None = None) -> FlatEncoder:
    """Reads an encoder; `layers`: only these layers of it."""
    shape = Shape.read(folder / "config.json")
    state = upstream_state(read_packed(folder))
    state = {key: value for key, value in state.items() if not key.startswith("pooler.")}
    if layers is not None:
        state = picked(state, layers)
        shape = Shape(**{**vars(shape), "layers": len(layers)})
    encoder = FlatEncoder(shape)
    encoder.load_state_dict(state)
    return encoder.to(device).eval()


def picked(state: dict[str, Tensor], layers: Sequence[int]) -> dict[str, Tensor]:
    """The weights of some layers, numbered from 0 again, and everything that is not in a layer."""
    found = {key: value for key, value in state.items() if not key.startswith("layers.")}
    for new, old in enumerate(layers):
        first = f"layers.{old}."
        found |= {f"layers.{new}.{k.removeprefix(first)}": v for k, v in state.items() if k.startswith(first)}
    return found


@torch.no_grad()
def embed(encoder: FlatEncoder, tokens: Tokens, most: int = 256, together: int = 65_536) -> Tensor:
    """The vectors of all texts in full precision, about `together` tokens at a time, the longest texts first."""
    order = torch.argsort(tokens.length, descending=True)
    found: list[Tensor] = []
    first = 0
    while first < len(order):
        length = min(most, int(tokens.length[order[first]]) + 2)
        length = -(-length // 8) * 8
        at = order[first : first + max(1, together // length)]
        batch = Batch.of([block_of(tokens, at, min(length, most))])
        found.append(encoder.vectors(encoder(encoder.embedded(batch), batch.biases, batch.blocks)[-1], batch))
        first += len(at)
    return torch.cat(found)[torch.argsort(order)]
