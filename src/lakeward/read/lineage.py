"""Finds where the rows of tables come from, by the records of transactions and by commits.

Transactions record the text of their statements without its literals, the files that they were
given, and the tables that they read. Clones and restores are found by their commits. The lineage of
columns is derived from statements when it is queried, so commits do not take longer. Rows that came
from a program's memory have a source of the kind `unknown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, NotFound
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import EdgeKind, Lineage, LineageEdge, LineageNode, NodeKind
from lakeward.model.lineage.origin import without_credentials
from lakeward.read.known_edges import KnownEdges
from lakeward.read.lineage_edges import EdgeReader

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"
_SHOWN: Final = 3
_BY_COLUMN: Final = frozenset({EdgeKind.VALUE, EdgeKind.CLONE, EdgeKind.RESTORE})
"""Kinds of edges between tables that need not be followed for columns.

Edges between columns accompany them, or none are needed.
"""
_WHOLE: Final = frozenset({EdgeKind.CLONE})
"""Kinds of edges between tables that mean that both tables have the same rows."""


def lake_lineage(context: LakeContext, transaction_id: str | None) -> Lineage:
    """Return all edges of a lake, or those of one transaction."""
    with context.database.read() as session:
        if transaction_id is None:
            found = context.cache(KnownEdges).edges(session)
        else:
            found = EdgeReader(session).edges(None, LIVE, transaction_id)
    return Lineage(None, UPSTREAM, *_sorted(_explicit(found)))


def file_lineage(context: LakeContext, file: str) -> Lineage:
    """Return what is derived from a file, over any number of steps.

    Raises:
        NotFound: No commit has recorded such a file.
        InvalidInput: `file` is the end of a path, and several paths have that end.
    """
    file = without_credentials(file)
    with context.database.read() as session:
        found = context.cache(KnownEdges).edges(session)
    nodes = {e.source for e in found if e.source.kind is NodeKind.FILE and e.source.column is None}
    wanted = {n for n in nodes if n.name == file} or {
        n for n in nodes if n.name.endswith(f"/{file}")
    }
    if not wanted:
        what = f"No commit has recorded that it read the file {file}."
        raise NotFound(what, hint="`lakeward lineage` shows the files that are known.", path=file)
    if len(wanted) > 1:
        names = ", ".join(sorted(n.name for n in wanted)[:_SHOWN])
        what = f"Several files have this name: {names}."
        raise InvalidInput(what, hint="Give the whole path.", path=file)
    (root,) = wanted
    whole = [e for e in found if e.target.column is None]
    return Lineage(root, DOWNSTREAM, *_sorted(_reached(root, whole, DOWNSTREAM, None)))


def table_lineage(
    context: LakeContext,
    head: Head,
    *,
    direction: str,
    depth: int | None,
    column: str | None,
    version: int | None,
) -> Lineage:
    """Return the sources of a table or column, or what is derived from it, within `depth` steps.

    Raises:
        InvalidInput: The table has no such column.
    """
    with context.database.read() as session:
        reading = EdgeReader(session)
        root = LineageNode(NodeKind.TABLE, str(head.name), reading.checked(head, column))
        if direction == DOWNSTREAM:
            found = context.cache(KnownEdges).edges(session)
        else:
            found = reading.upstream(head, LIVE if version is None else version)
    if column is not None:
        kept = reached_columns(root, found, direction, depth)
        return Lineage(root, direction, (), _sorted(kept, whole=True)[1])
    whole = [e for e in found if e.target.column is None]
    tables = _sorted(_reached(root, whole, direction, depth))[0]
    names = {n.name for e in tables for n in (e.source, e.target)}
    inner = [e for e in _explicit(found) if e.target.column is not None]
    within = [e for e in inner if e.target.name in names and e.source.name in names]
    columns = _sorted(within)[1]
    return Lineage(root, direction, tables, columns)


def _reached(
    root: LineageNode, edges: Sequence[LineageEdge], direction: str, depth: int | None
) -> set[LineageEdge]:
    """Return the edges between tables on paths from a table, of at most `depth` steps."""
    up = direction == UPSTREAM
    by_node = _by_node(edges, up=up)
    found: set[LineageEdge] = set()
    border, seen, step = {root}, {root}, 0
    while border and (depth is None or step < depth):
        step += 1
        new = {edge for node in border for edge in by_node.get(node, ())}
        found |= new
        border = {e.source if up else e.target for e in new} - seen
        seen |= border
    return found


def reached_columns(
    root: LineageNode, edges: Sequence[LineageEdge], direction: str, depth: int | None
) -> set[LineageEdge]:
    """Return the edges on paths from a column, of at most `depth` steps.

    If it is not known which columns come from a source, all columns of the table are assumed to. A
    node without a column means the rows that its table has: it depends on everything that decides
    about the rows of any column.
    """
    up = direction == UPSTREAM
    shown = set(_explicit(edges))
    exact = _by_node([e for e in edges if e.target.column is not None], up=up)
    vague = _by_node([e for e in edges if e.target.column is None], up=up)
    deciding: dict[str, list[LineageEdge]] = {}
    for edge in edges:
        if edge.kind is EdgeKind.ROWS:
            deciding.setdefault(edge.target.name, []).append(edge)
    found: set[LineageEdge] = set()
    border, seen, step = {root}, {root}, 0
    while border and (depth is None or step < depth):
        step += 1
        new: set[LineageEdge] = set()
        for node in border:
            new.update(e for e in exact.get(node, ()) if e in shown or not up)
            if up and node.column is None:
                new.update(replace(e, target=node) for e in deciding.get(node.name, ()))
            for edge in vague.get(replace(node, column=None), ()):
                if edge.kind not in _BY_COLUMN or (
                    up and node.column is None and edge.kind in _WHOLE
                ):
                    new.add(replace(edge, target=node) if up else replace(edge, source=node))
        found |= new
        border = {e.source if up else e.target for e in new}
        if not up:
            # If rows are added or removed, columns that only count the table's rows change.
            border |= {replace(e.target, column=None) for e in new if e.kind is EdgeKind.ROWS}
        border -= seen
        seen |= border
    return found - (set(edges) - shown)


def _explicit(edges: Iterable[LineageEdge]) -> list[LineageEdge]:
    """Return edges without those from the rows of a table to a column with a column of it.

    Each column of a table depends on the rows of its table, so these edges say nothing new about
    the column. They are needed to find what the rows of the target depend on.
    """
    own = list(edges)
    named = {(e.source.name, e.target) for e in own if e.source.column is not None}
    return [
        e
        for e in own
        if e.source.column is not None
        or e.target.column is None
        or (e.source.name, e.target) not in named
    ]


def _by_node(edges: Iterable[LineageEdge], *, up: bool) -> dict[LineageNode, list[LineageEdge]]:
    """Return edges by the end from which they are followed."""
    found: dict[LineageNode, list[LineageEdge]] = {}
    for edge in edges:
        found.setdefault(edge.target if up else edge.source, []).append(edge)
    return found


def _sorted(
    edges: Sequence[LineageEdge] | set[LineageEdge], *, whole: bool = False
) -> tuple[tuple[LineageEdge, ...], tuple[LineageEdge, ...]]:
    """Return the edges between tables, and those between columns, sorted.

    With `whole` all edges are returned as edges between columns.
    """
    own = sorted(edges, key=lambda e: (e.target, e.source, e.kind))
    if whole:
        return (), tuple(own)
    tables = tuple(e for e in own if e.target.column is None)
    return tables, tuple(e for e in own if e.target.column is not None)
