"""Lineage as a graph: which tables, files and columns others come from."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class NodeKind(StrEnum):
    """The kind of a source or target of rows."""

    TABLE = "table"
    FILE = "file"
    UNKNOWN = "unknown"
    """Rows from a program whose sources were not recorded."""


class EdgeKind(StrEnum):
    """How a target depends on a source."""

    VALUE = "value"
    """Values are computed from it."""
    ROWS = "rows"
    """It decides which rows there are: a condition, a join, a group."""
    CLONE = "clone"
    """The target began with the source's files."""
    RESTORE = "restore"
    """The table was brought back to a version of its own."""
    FILE = "file"
    """Rows of the file went in. Which columns are computed of which is not known."""
    DECLARED = "declared"
    """The program that wrote the rows says so. Columns are not known."""
    READ = "read"
    """The same transaction read it. Whether its rows went in is not known."""
    UNKNOWN = "unknown"
    """Something comes from it; which columns is not known."""


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A table, a file or an unknown source; `column` if it is one column of the table."""

    kind: NodeKind
    name: str
    column: str | None = None

    def __lt__(self, other: LineageNode) -> bool:
        return self._key() < other._key()

    def _key(self) -> tuple[str, str, str]:
        return self.kind.value, self.name, self.column or ""

    def __str__(self) -> str:
        return self.name if self.column is None else f"{self.name}.{self.column}"


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """A target that depends on a source.

    Attributes:
        source: Where it comes from.
        target: The table, or its column.
        kind: How it depends on it.
        operation: The operation of the newest commit that says so.
        version: The target's version that this commit made.
        source_version: The source's version that it read, where that is known.
        transaction_id: Its transaction.
    """

    source: LineageNode
    target: LineageNode
    kind: EdgeKind
    operation: str
    version: int
    source_version: int | None
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """The sources of a table or column, or the tables and columns made from it.

    Attributes:
        root: The table or column asked about; None for the whole lake.
        direction: `upstream` or `downstream`.
        edges: Between tables and files.
        columns: Between columns, where that is known.
    """

    root: LineageNode | None
    direction: str
    edges: tuple[LineageEdge, ...]
    columns: tuple[LineageEdge, ...]

    def tree(self) -> Iterator[str]:
        """Lines of text: what was asked about, and below it, indented, what is one step away."""
        edges = self._shown()
        roots = [self.root] if self.root is not None else sorted({e.target for e in edges})
        for root in roots:
            yield str(root)
            yield from self._below(root, "", {root})

    def to_mermaid(self) -> str:
        """The graph as a diagram of Mermaid."""
        edges = self._shown()
        nodes = sorted({n for e in edges for n in (e.source, e.target)})
        numbers = {node: f"n{number}" for number, node in enumerate(nodes)}
        lines = ["flowchart LR"]
        for node in nodes:
            text = str(node).replace('"', "#quot;")
            opening, closing = _SHAPES[node.kind]
            lines.append(f'    {numbers[node]}{opening}"{text}"{closing}')
        for edge in edges:
            arrow = "-->" if edge.kind in _SURE else "-.->"
            lines.append(f"    {numbers[edge.source]} {arrow}|{edge.kind}| {numbers[edge.target]}")
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """A complete HTML page, without scripts: the tree, and a table of all edges."""
        title = html.escape("Lineage" if self.root is None else f"Lineage of {self.root}")
        lines = html.escape("\n".join(self.tree()))
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(str(cell))}</td>"
                for cell in (e.source, e.target, e.kind, e.operation, e.version)
            )
            + "</tr>"
            for e in self._shown()
        )
        return (
            f"<!doctype html><meta charset=utf-8><title>{title}</title>"
            "<style>body{font:14px sans-serif;margin:2em}td,th{padding:2px 12px;text-align:left}"
            f"</style><h1>{title}</h1><pre>{lines}</pre><table><tr><th>from<th>to<th>how"
            f"<th>operation<th>version</tr>{rows}</table>"
        )

    def _shown(self) -> tuple[LineageEdge, ...]:
        is_column = self.root is not None and self.root.column is not None
        return self.columns if is_column else self.edges

    def _below(self, node: LineageNode, indent: str, path: set[LineageNode]) -> Iterator[str]:
        up = self.direction == "upstream"
        found = [e for e in self._shown() if (e.target if up else e.source) == node]
        found.sort(key=lambda e: e.source if up else e.target)
        for number, edge in enumerate(found):
            other = edge.source if up else edge.target
            last = number == len(found) - 1
            again = " (see above)" if other in path else ""
            yield f"{indent}{'└' if last else '├'}─ {other} [{edge.kind}]{again}"
            if not again:
                yield from self._below(other, indent + ("   " if last else "│  "), path | {other})


_SURE: Final = frozenset(EdgeKind) - {EdgeKind.READ, EdgeKind.UNKNOWN}
_SHAPES: Final = {
    NodeKind.TABLE: ("[", "]"),
    NodeKind.FILE: ("[/", "/]"),
    NodeKind.UNKNOWN: ("((", "))"),
}
