"""Finds the columns and tables that depend on a column, and are affected if it is dropped."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.context import LakeContext
from lakeward.log import lineage
from lakeward.log.codec import dumps
from lakeward.log.lineage import SourcedCommit
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import Affected, LineageEdge, LineageNode, NodeKind
from lakeward.read.lineage import DOWNSTREAM, reached_columns
from lakeward.read.lineage_edges import EdgeReader


def affected(
    context: LakeContext, head: Head, column: str, *, newest: int | None = None
) -> list[Affected]:
    """Return what depends on a column by lineage, over any number of steps, sorted by name.

    Args:
        context: The lake.
        head: The table.
        column: The column.
        newest: How many of the newest commits with recorded sources to search; all unless given.

    Raises:
        InvalidInput: The table has no such column.
    """
    with context.database.read() as session:
        reading = EdgeReader(session)
        own = LineageNode(NodeKind.TABLE, str(head.name), reading.checked(head, column))
        if newest is None:
            edges = reading.edges(None, LIVE)
        else:
            edges = reading.edges_of(distinct(lineage.newest(session, newest)))
    found: dict[LineageNode, list[LineageEdge]] = {}
    for edge in reached_columns(own, edges, DOWNSTREAM, None):
        is_own = edge.target.name == own.name and edge.target.column in (own.column, None)
        if not is_own:
            found.setdefault(edge.target, []).append(edge)
    return [_affected(own, target, found[target]) for target in sorted(found)]


def distinct(commits: Sequence[SourcedCommit]) -> list[SourcedCommit]:
    """Return the newest of the commits to a table that have the same flows at other versions.

    A job that repeats its statements would otherwise cost an alteration time for each run.
    """
    found: dict[tuple[int, str], SourcedCommit] = {}
    for commit in commits:
        flows = [
            {**flow, "tables": {name: table[0] for name, table in flow["tables"].items()}}
            if "tables" in flow
            else flow
            for flow in commit.flows
        ]
        found[commit.table_id, dumps(flows)] = commit
    return list(found.values())


def _affected(own: LineageNode, target: LineageNode, edges: list[LineageEdge]) -> Affected:
    newest = max(edges, key=lambda e: (e.version, e.kind))
    return Affected(
        target.name,
        target.column,
        tuple(sorted({str(e.kind) for e in edges})),
        any(e.source == own for e in edges),
        newest.version,
        newest.transaction_id,
    )
