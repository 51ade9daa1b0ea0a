"""Shows the graph as one HTML page: `page.html` draws the data that `render` puts into it.

Entities are dots. A community is a disc of dots, with the best connected in the middle. This stays readable with ten
thousand dots, when a drawing of all edges would be a tangle. Edges are drawn only for the selected entity.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from surefind.base.types import Chunk
from surefind.engine.graph.communities import Communities
from surefind.engine.graph.derive import Graph
from surefind.engine.graph.relations import relate
from surefind.engine.graph.summaries import Summary, labels, types

MAX_DRAWN = 10_000
"""Most entities drawn, the best connected first."""
_RELATED = 12
"""Most related entities listed per entity."""
_PASSAGES = 8
"""Most passages listed per entity."""
_SNIPPET = 240
"""Most characters shown of a passage."""
_STEP = 1.0
"""Distance between neighbouring dots of a community."""
_GOLDEN = math.pi * (3 - math.sqrt(5))
_SLOT = '<script type="application/json" id="graph">null</script>'


def view(
    graph: Graph,
    partition: Communities,
    summaries: Sequence[Summary],
    passages: Callable[[Sequence[int]], Sequence[Chunk]],
    most: int = MAX_DRAWN,
) -> dict[str, Any]:
    """The data of the page: the best connected entities, with their relations and passages."""
    shown = [e for e in np.lexsort((np.arange(len(graph.keys)), -graph.degrees)).tolist() if graph.degrees[e] > 1]
    shown = shown[:most]
    number = {entity: i for i, entity in enumerate(shown)}
    community = partition.large[graph.chunks :][shown].tolist() if len(graph.keys) else []
    places, groups = _map(community)
    named, typed = labels(graph), types(graph)
    chunks: dict[int, int] = {}
    nodes = []
    for entity, home, (x, y) in zip(shown, community, places, strict=True):
        others, weights = graph.once(relate).of(entity)
        pairs = zip(others.tolist(), weights.tolist(), strict=True)
        related = [(number[other], round(weight, 2)) for other, weight in pairs if other in number][:_RELATED]
        held = graph.chunks_of(entity).tolist()
        small = int(partition.small[graph.chunks + entity])
        nodes.append(
            {
                "name": named[entity], "type": typed.get(entity, ""), "degree": int(graph.degrees[entity]),
                "x": round(x, 2), "y": round(y, 2),
                "community": home, "small": small, "related": related,
                "passages": [chunks.setdefault(chunk, len(chunks)) for chunk in held[:_PASSAGES]],
            }
        )  # fmt: skip
    used = sorted({node["small"] for node in nodes if node["small"] >= 0})
    return {
        "nodes": nodes,
        "groups": [{**group, "names": _names(nodes, group["id"])} for group in groups],
        "summaries": {small: summaries[small].text for small in used},
        "passages": [
            {"title": chunk.title or chunk.document, "headings": list(chunk.headings), "text": chunk.text[:_SNIPPET]}
            for chunk in (passages(list(chunks)) if chunks else [])
        ],
        "counts": counts(graph, partition),
    }


def counts(graph: Graph, partition: Communities) -> dict[str, Any]:
    return {
        "passages": graph.chunks_there,
        "entities": len(graph.keys),
        "shared": int((graph.degrees > 1).sum()),
        "mentions": len(graph.entities),
        "relations": len(graph.once(relate).entities) // 2,
        "communities": int(partition.large.max(initial=-1)) + 1,
        "small_communities": len(partition),
        "modularity": round(partition.modularity, 4),
    }


def _map(community: Sequence[int]) -> tuple[list[tuple[float, float]], list[dict[str, Any]]]:
    """The position of every node, and the disc of every community. Nodes are given best connected first; the nodes of a
    community are placed on a sunflower spiral from its middle."""
    members: dict[int, list[int]] = {}
    for node, home in enumerate(community):
        members.setdefault(home, []).append(node)
    places = [(0.0, 0.0)] * len(community)
    discs: list[tuple[float, float, float]] = []
    groups = []
    for home, nodes in sorted(members.items(), key=lambda pair: (-len(pair[1]), pair[0])):
        radius = _STEP * (math.sqrt(len(nodes)) + 1.5)
        x, y = _free(discs, radius)
        discs.append((x, y, radius))
        groups.append({"id": home, "x": round(x, 2), "y": round(y, 2), "r": round(radius, 2), "size": len(nodes)})
        for i, node in enumerate(nodes):
            away = _STEP * math.sqrt(i)
            places[node] = (x + away * math.cos(i * _GOLDEN), y + away * math.sin(i * _GOLDEN))
    return places, groups


def _free(discs: Sequence[tuple[float, float, float]], radius: float) -> tuple[float, float]:
    """The first point on a spiral from the middle where a disc of this size touches no other."""
    if not discs:
        return 0.0, 0.0
    known = np.array(discs)
    angle = 0.0
    while True:
        away = 0.8 * _STEP * angle
        x, y = away * math.cos(angle), away * math.sin(angle)
        if (np.hypot(known[:, 0] - x, known[:, 1] - y) > known[:, 2] + radius + _STEP).all():
            return x, y
        angle += 0.5 / max(1.0, away) + 0.02


def _names(nodes: Sequence[dict[str, Any]], home: int) -> list[str]:
    """The names of a community's best connected entities."""
    return [node["name"] for node in nodes if node["community"] == home][:3]


def render(data: dict[str, Any]) -> str:
    """The whole page, which loads nothing from elsewhere. `<` is escaped, so that no text can end the script."""
    page = files("surefind.engine.graph").joinpath("page.html").read_text(encoding="utf-8")
    before, slot, after = page.partition(_SLOT)
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return before + slot.replace("null", text) + after
