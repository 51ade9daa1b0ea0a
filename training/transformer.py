"""Implements BERT and MPNet with `scaled_dot_product_attention`, for training on one accelerator.

One class serves both: MPNet has a relative position bias and no token types. Upstream weights are loaded by name;
`python transformer.py MODEL_FOLDER` compares this implementation with `transformers`.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    layers: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float
    family: str
    """`bert` or `mpnet`."""

    @classmethod
    def read(cls, config: Path) -> Shape:
        raw = json.loads(config.read_text(encoding="utf-8"))
        return cls(
            raw["hidden_size"],
            raw["num_attention_heads"],
            raw["num_hidden_layers"],
            raw["intermediate_size"],
            raw["vocab_size"],
            raw["max_position_embeddings"],
            raw["layer_norm_eps"],
            raw["model_type"],
        )


class Layer(nn.Module):
    def __init__(self, shape: Shape, dropout: float) -> None:
        super().__init__()
        width = shape.width
        self.heads, self.dropout = shape.heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(width, eps=shape.epsilon)
        self.up = nn.Linear(width, shape.inner)
        self.down = nn.Linear(shape.inner, width)
        self.norm = nn.LayerNorm(width, eps=shape.epsilon)

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        context = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        context = context.transpose(1, 2).reshape(x.shape)
        x = self.attention_norm(self._drop(self.out(context)) + x)
        return self.norm(self._drop(self.down(functional.gelu(self.up(x)))) + x)

    def _drop(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training) if self.dropout else x


class Transformer(nn.Module):
    """Turns token ids and a mask into hidden states. For MPNet, `tokens.py` shifts BERT's ids to MPNet's vocabulary."""

    def __init__(self, shape: Shape, dropout: float = 0.0, pools: bool = True) -> None:
        """`pools`: with the pooler, which cross-encoders use and sentence encoders do not."""
        super().__init__()
        self.shape = shape
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.types = nn.Embedding(2, shape.width) if shape.family == "bert" else None
        self.relative = nn.Embedding(32, shape.heads) if shape.family == "mpnet" else None
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        if pools:
            self.pooler = nn.Linear(shape.width, shape.width)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        first = 2 if self.relative is not None else 0
        places = torch.arange(first, first + ids.size(1), device=ids.device)
        x = self.words(ids) + self.positions(places)
        if self.types is not None:
            x = x + self.types(types if types is not None else torch.zeros_like(ids))
        x = self.norm(x)
        bias = torch.zeros(mask.shape, device=x.device).masked_fill(~mask, -1e4)[:, None, None, :]
        bias = bias.expand(-1, self.shape.heads, ids.size(1), -1)
        if self.relative is not None:
            bias = bias + self.relative(buckets(ids.size(1), ids.device)).permute(2, 0, 1)[None]
        bias = bias.to(torch.get_autocast_dtype(x.device.type) if torch.is_autocast_enabled(x.device.type) else x.dtype)
        for layer in self.layers:
            x = layer(x, bias)
        return x

    def mean(self, ids: Tensor, mask: Tensor) -> Tensor:
        """The unit vector of each text, by mean pooling and L2 normalisation."""
        kept = mask.unsqueeze(-1).float()
        x = self(ids, mask).float()
        return functional.normalize((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9), dim=1)


class CrossEncoder(nn.Module):
    """Scores a pair: the [CLS] state, through the pooler, becomes one number."""

    def __init__(self, body: Transformer) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(body.shape.width, 1)

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        first = self.body(ids, mask, types)[:, 0]
        return self.head(torch.tanh(self.body.pooler(first))).float().squeeze(-1)


def buckets(length: int, device: torch.device, buckets: int = 32, furthest: int = 128) -> Tensor:
    """The bidirectional buckets of relative positions of MPNet (and T5)."""
    place = torch.arange(length, device=device)
    distance = place[:, None] - place[None, :]
    half = buckets // 2
    result = (distance < 0).long() * half
    distance = distance.abs()
    exact = half // 2
    far = exact + (
        torch.log(distance.float().clamp(min=1) / exact) / math.log(furthest / exact) * (half - exact)
    ).long().clamp(max=half - exact - 1)
    return result + torch.where(distance < exact, distance, far)


_NAMES = {
    "embeddings.word_embeddings": "words",
    "embeddings.position_embeddings": "positions",
    "embeddings.token_type_embeddings": "types",
    "embeddings.LayerNorm": "norm",
    "encoder.relative_attention_bias": "relative",
    "pooler.dense": "pooler",
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "out",
    "attention.output.LayerNorm": "attention_norm",
    "attention.attn.q": "query",
    "attention.attn.k": "key",
    "attention.attn.v": "value",
    "attention.attn.o": "out",
    "attention.LayerNorm": "attention_norm",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm",
}


def upstream_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Renames upstream's tensors to the names in this file."""
    state = {}
    for key, tensor in tensors.items():
        module, _, kind = key.rpartition(".")
        if module.startswith("encoder.layer."):
            _, _, layer, module = module.split(".", 3)
            state[f"layers.{layer}.{_NAMES[module]}.{kind}"] = tensor.float()
        elif module in _NAMES:
            state[f"{_NAMES[module]}.{kind}"] = tensor.float()
    return state


def load_upstream(folder: Path, dropout: float = 0.0) -> Transformer:
    model = Transformer(Shape.read(folder / "config.json"), dropout)
    model.load_state_dict(upstream_state(load_file(folder / "model.safetensors")))
    return model


def _compare(folder: Path) -> None:
    """Prints the greatest difference from `transformers` on a padded batch of random tokens."""
    from transformers import AutoModel

    reference = AutoModel.from_pretrained(folder).eval()
    ours = load_upstream(folder).eval()
    ids = torch.randint(1000, 30000, (3, 40))
    mask = torch.arange(40)[None] < torch.tensor([40, 7, 25])[:, None]
    ids = ids.masked_fill(~mask, 0 if ours.shape.family == "bert" else 1)
    with torch.no_grad():
        difference = reference(ids, attention_mask=mask.long()).last_hidden_state - ours(ids, mask)
    print(f"{folder.name}: greatest difference {difference[mask].abs().max():.2e}")


if __name__ == "__main__":
    _compare(Path(sys.argv[1]))
