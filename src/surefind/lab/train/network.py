"""BERT in torch, for training: the only implementation, of `surefind train` and of the scripts in `training/` and
`models/scripts/`. Its parameters have the same names as in our ONNX graphs.

It is our own code, not a library's, for two reasons. The exported graph is then the plain pattern that onnxruntime's
optimiser fuses. And training can start from any folder we ship (`network_weights`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

_NORM_EPSILON = 1e-12
_PADDING_SCORE = -10000.0
"""Added to the attention scores of padding, so that its weight is 0."""


@dataclass(frozen=True)
class Shape:
    width: int
    heads: int
    layers: int
    inner: int
    vocabulary: int
    positions: int
    epsilon: float = _NORM_EPSILON
    """What the norms add to a variance."""


class Layer(nn.Module):
    def __init__(self, shape: Shape, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(shape.width, shape.width) for _ in range(4))
        self.attention_norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.up = nn.Linear(shape.width, shape.inner)
        self.down = nn.Linear(shape.inner, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        query, key, value = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))
        context = attention(query, key, value, bias).permute(0, 2, 1, 3).contiguous()
        return self.after_attention(x, context.view(context.size(0), context.size(1), -1))

    def after_attention(self, x: Tensor, context: Tensor) -> Tensor:
        """The rest of the layer, given its input and the result of its attention."""
        x = self.attention_norm(self._drop(self.out(context)) + x)
        normed: Tensor = self.norm(self._drop(self.down(nn.functional.gelu(self.up(x)))) + x)
        return normed

    def _split(self, x: Tensor) -> Tensor:
        return x.view(x.size(0), x.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def _drop(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(x, self.dropout, self.training) if self.dropout else x


def attention(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None) -> Tensor:
    """Attention with a bias of the scores: by the fast kernels, and for the export written out, as the optimiser of
    onnxruntime wants it."""
    if torch.onnx.is_in_onnx_export() and bias is not None:
        scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1)) + bias
        return torch.matmul(scores.softmax(-1), value)
    bias = None if bias is None else bias.to(query.dtype)  # under autocast, only the products have the short type
    return nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)


class Network(nn.Module):
    """Maps tokens to unit vectors (encoder: by `pooling`, `mean` or `cls`) or to one number (reranker: from [CLS])."""

    position_ids: Tensor

    def __init__(self, shape: Shape, ranks: bool, pooling: str = "mean", dropout: float = 0.0) -> None:
        super().__init__()
        self.shape, self.ranks, self.pooling = shape, ranks, pooling
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.types: nn.Embedding | None = nn.Embedding(2, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=shape.epsilon)
        self.layers = nn.ModuleList(Layer(shape, dropout) for _ in range(shape.layers))
        if ranks:
            self.pooler = nn.Linear(shape.width, shape.width)
            self.head = nn.Linear(shape.width, 1)
        self.register_buffer("position_ids", torch.arange(shape.positions)[None], persistent=False)

    @property
    def dimension(self) -> int:
        """The length of an encoder's vectors."""
        return self.shape.width

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        x = self.embedded(input_ids, torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids)
        bias = self.bias(attention_mask, x)
        for layer in self.layers:
            x = layer(x, bias)
        if self.ranks:
            logits: Tensor = self.head(torch.tanh(self.pooler(x[:, 0])))
            return logits
        if self.pooling == "cls":
            return self.vectors(x[:, 0])
        kept = attention_mask.unsqueeze(-1).to(x.dtype)
        return self.vectors((x * kept).sum(1) / kept.sum(1).clamp(min=1e-9))

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        """What the first layer reads."""
        places = self.position_ids[:, : input_ids.size(1)]
        assert self.types is not None
        x: Tensor = self.norm(self.words(input_ids) + self.types(token_type_ids) + self.positions(places))
        return x

    def bias(self, attention_mask: Tensor, x: Tensor) -> Tensor:
        """What is added to the attention scores of every layer."""
        return (1.0 - attention_mask[:, None, None, :].to(x.dtype)) * _PADDING_SCORE

    def vectors(self, pooled: Tensor) -> Tensor:
        """The vectors of texts, from the pooled states of their tokens."""
        scaled: Tensor = pooled / pooled.norm(dim=1, keepdim=True).clamp(min=_NORM_EPSILON)
        return scaled
