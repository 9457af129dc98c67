"""Lineage as a graph: from which tables, files and columns others come."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

DROPPED: Final = " (dropped"
"""After the name of a table in a node: the table was dropped. No name contains it."""


class NodeKind(StrEnum):
    """The kind of a source or target of rows."""

    TABLE = "table"
    FILE = "file"
    UNKNOWN = "unknown"
    """Rows from a program whose sources were not recorded."""


class EdgeKind(StrEnum):
    """How a target depends on a source."""

    VALUE = "value"
    """Values of the target are computed from the source."""
    ROWS = "rows"
    """The source decides which rows exist: a condition, a join, a group."""
    CONDITION = "condition"
    """The source decides which rows get new values: condition of an UPDATE, key of a MERGE."""
    CLONE = "clone"
    """The target was created with the source's files."""
    RESTORE = "restore"
    """The table was restored to one of its earlier versions."""
    FILE = "file"
    """Rows of the file were written. From which columns others are computed is not known."""
    DECLARED = "declared"
    """The program that wrote the rows declared the source. Columns are not known."""
    READ = "read"
    """The same transaction read the source. Whether its rows were written is not known."""
    UNKNOWN = "unknown"
    """The target comes from the source; for which columns is not known."""


@dataclass(frozen=True, slots=True)
class LineageNode:
    """A table, a file or an unknown source; `column` if it is one column of the table."""

    kind: NodeKind
    name: str
    column: str | None = None

    @property
    def table(self) -> str:
        """The name of the table without the mark of a dropped one."""
        return self.name.partition(DROPPED)[0]

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
        source: Where the rows or values come from.
        target: The table, or its column.
        kind: How the target depends on the source.
        operation: The operation of the newest commit with this dependency.
        version: The version of the target that this commit made.
        source_version: The version of the source that this commit read, if known.
        transaction_id: The transaction of this commit.
    """

    source: LineageNode
    target: LineageNode
    kind: EdgeKind
    operation: str
    version: int
    source_version: int | None
    transaction_id: str


@dataclass(frozen=True, slots=True)
class Affected:
    """A column that depends on another one, or a table whose dependent columns are not known.

    Attributes:
        table: The table that depends on the column.
        column: The name of the dependent column; None for the table.
        kinds: How it depends on the column, directly or through other columns.
        direct: Whether it depends on the column itself, not only through others.
        version: The newest version of the table with this dependency.
        transaction_id: The transaction that made this version.
    """

    table: str
    column: str | None
    kinds: tuple[str, ...]
    direct: bool
    version: int
    transaction_id: str

    def __str__(self) -> str:
        return self.table if self.column is None else f"{self.table}.{self.column}"


@dataclass(frozen=True, slots=True)
class Lineage:
    """The sources of a table or column, or the tables and columns made from it.

    Attributes:
        root: The requested table or column; None for the whole lake.
        direction: `upstream` or `downstream`.
        edges: Edges between tables and files.
        columns: Edges between columns, where they are known.
    """

    root: LineageNode | None
    direction: str
    edges: tuple[LineageEdge, ...]
    columns: tuple[LineageEdge, ...]

    def tree(self) -> Iterator[str]:
        """Yield lines of text: the root, and below each node, indented, those one step away.

        What is below a node is shown once for each root.
        """
        edges = self._shown()
        steps = self._steps()
        roots = [self.root] if self.root is not None else sorted({e.target for e in edges})
        for root in roots:
            yield str(root)
            yield from self._below(root, "", {root}, steps)

    def to_mermaid(self) -> str:
        """Return the graph as a Mermaid diagram."""
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
        """Return a complete HTML page, without scripts: the tree, and a table of all edges."""
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

    def _steps(self) -> dict[LineageNode, list[tuple[LineageNode, EdgeKind]]]:
        """Return what is one step away from each node, sorted."""
        up = self.direction == "upstream"
        found: dict[LineageNode, list[tuple[LineageNode, EdgeKind]]] = {}
        for edge in self._shown():
            node, other = (edge.target, edge.source) if up else (edge.source, edge.target)
            found.setdefault(node, []).append((other, edge.kind))
        for steps in found.values():
            steps.sort(key=lambda step: step[0])
        return found

    def _below(
        self,
        node: LineageNode,
        indent: str,
        shown: set[LineageNode],
        steps: dict[LineageNode, list[tuple[LineageNode, EdgeKind]]],
    ) -> Iterator[str]:
        found = steps.get(node, [])
        for number, (other, kind) in enumerate(found):
            last = number == len(found) - 1
            again = " (see above)" if other in shown and other in steps else ""
            yield f"{indent}{'└' if last else '├'}─ {other} [{kind}]{again}"
            if not again:
                shown.add(other)
                yield from self._below(other, indent + ("   " if last else "│  "), shown, steps)


_SURE: Final = frozenset(EdgeKind) - {EdgeKind.READ, EdgeKind.UNKNOWN}
_SHAPES: Final = {
    NodeKind.TABLE: ("[", "]"),
    NodeKind.FILE: ("[/", "/]"),
    NodeKind.UNKNOWN: ("((", "))"),
}
