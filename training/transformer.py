"""The networks of training: BERT of `surefind.lab.train.network`, and MPNet, which has a bias of relative positions and
no token types.

`python transformer.py MODEL_FOLDER` compares both with `transformers`.
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

from surefind.lab.train import network

_MPNET_NAMES = {
    "encoder.relative_attention_bias": "relative",
    "attention.attn.q": "query",
    "attention.attn.k": "key",
    "attention.attn.v": "value",
    "attention.attn.o": "out",
    "attention.LayerNorm": "attention_norm",
}


@dataclass(frozen=True)
class Shape(network.Shape):
    family: str = "bert"
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


class Transformer(network.Network):
    """An encoder, or a reranker if it `ranks`. For MPNet, `tokens.py` shifts BERT's ids to MPNet's vocabulary."""

    shape: Shape

    def __init__(self, shape: Shape, ranks: bool = False, pooling: str = "mean", dropout: float = 0.0) -> None:
        super().__init__(shape, ranks, pooling, dropout)
        self.relative = nn.Embedding(32, shape.heads) if shape.family == "mpnet" else None
        if self.relative is not None:
            self.types = None

    @property
    def first_position(self) -> int:
        return 0 if self.relative is None else 2

    def embedded(self, input_ids: Tensor, token_type_ids: Tensor) -> Tensor:
        if self.relative is None:
            return super().embedded(input_ids, token_type_ids)
        places = self.position_ids[:, self.first_position : self.first_position + input_ids.size(1)]
        return self.norm(self.words(input_ids) + self.positions(places))

    def bias(self, attention_mask: Tensor, x: Tensor) -> Tensor:
        bias = super().bias(attention_mask, x)
        return bias if self.relative is None else bias + self.relative_bias(x.size(1), x)

    def relative_bias(self, length: int, x: Tensor) -> Tensor:
        """What MPNet adds to attention scores, by the distance of two tokens."""
        return self.relative(buckets(length, x.device)).permute(2, 0, 1)[None].to(x.dtype)


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


def upstream_state(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Gives upstream's tensors the names of ours."""
    return network.upstream_state(tensors, _MPNET_NAMES)


def fitting(model: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The weights that a network has: a sentence encoder has no pooler, for example."""
    return {key: value for key, value in state.items() if key in model.state_dict()}


def _compare(folder: Path) -> None:
    """Prints the greatest difference from `transformers` on a padded batch of random tokens."""
    from transformers import AutoModel

    reference = AutoModel.from_pretrained(folder).eval()
    ours = Transformer(Shape.read(folder / "config.json")).eval()
    ours.load_state_dict(fitting(ours, upstream_state(load_file(folder / "model.safetensors"))))
    ids = torch.randint(1000, 30000, (3, 40))
    mask = torch.arange(40)[None] < torch.tensor([40, 7, 25])[:, None]
    ids = ids.masked_fill(~mask, 0 if ours.shape.family == "bert" else 1)
    states: list[Tensor] = []
    ours.layers[-1].register_forward_hook(lambda layer, given, found: states.append(found))
    with torch.no_grad():
        ours(ids, mask)
        difference = reference(ids, attention_mask=mask.long()).last_hidden_state - states[0]
    print(f"{folder.name}: greatest difference {difference[mask].abs().max():.2e}")


if __name__ == "__main__":
    _compare(Path(sys.argv[1]))
