"""Filters lineage by the access of a caller, and lays it out as a graph from left to right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from lakeward.lake.records import Lineage, LineageEdge
from lakeward.web.access import Caller

WIDTH: Final = 210
HEIGHT: Final = 34
_GAP: Final = 90
_ROW: Final = 54


def seen_lineage(by: Caller, found: Lineage) -> Lineage:
    """Return a lineage without the edges of tables that the caller has no access to."""
    if by.sees_everything:
        return found

    def is_open(edge: LineageEdge) -> bool:
        ends = (edge.source, edge.target)
        return all(by.sees(end.table) for end in ends if end.kind.value == "table")

    return replace(
        found,
        edges=tuple(filter(is_open, found.edges)),
        columns=tuple(filter(is_open, found.columns)),
    )


@dataclass(frozen=True, slots=True)
class Box:
    """A table or a file of a drawing, and the coordinates of its top left corner."""

    kind: str
    name: str
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Arrow:
    """A line of a drawing, from the right side of a box to the left side of another."""

    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """Boxes and arrows, and the size of the whole drawing."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


def drawing(edges: Iterable[LineageEdge]) -> Drawing:
    """Lay out edges as a drawing: every table is right of its sources; cycles are broken."""
    found = [e for e in edges if e.source != e.target]
    nodes = sorted({n for e in found for n in (e.source, e.target)})
    sources = {node: [e.source for e in found if e.target == node] for node in nodes}
    layers: dict[object, int] = {}

    def layer_of(node: object, above: tuple[object, ...] = ()) -> int:
        if node not in layers:
            before = [s for s in sources[node] if s not in above and s != node]  # type: ignore[index]
            known = (layer_of(s, (*above, node)) + 1 for s in before)
            layers[node] = max(known, default=0)
        return layers[node]

    rows: dict[int, int] = {}
    boxes: dict[object, Box] = {}
    for node in nodes:
        layer = layer_of(node)
        row = rows[layer] = rows.get(layer, 0) + 1
        x, y = layer * (WIDTH + _GAP) + 4, (row - 1) * _ROW + 10
        boxes[node] = Box(node.kind.value, node.name, x, y)
    arrows = dict.fromkeys(
        Arrow(edge.kind.value, _curve(boxes[edge.source], boxes[edge.target])) for edge in found
    )
    width = max((box.x for box in boxes.values()), default=0) + WIDTH + 8
    height = max((box.y for box in boxes.values()), default=0) + HEIGHT + 10
    return Drawing(width, height, tuple(boxes.values()), tuple(arrows))


def _curve(source: Box, target: Box) -> str:
    x1, y1 = source.x + WIDTH, source.y + HEIGHT // 2
    x2, y2 = target.x, target.y + HEIGHT // 2
    bend = max(40, (x2 - x1) // 2)
    return f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
