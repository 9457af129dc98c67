"""Where the rows of tables come from, by what transactions recorded and by the log itself.

Transactions record the text of their statements, without the texts in it, the files that they were
given, the tables that they read. Clones and restores are known by their commits. Which columns come
from which is found from the statement when it is asked for, so a commit does not pay for it. Rows
that came from a program's memory have an unknown source, and it is said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.log import definitions, heads, lineage
from lakeward.log.database import Session
from lakeward.log.lineage import SourcedCommit
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import EdgeKind, Lineage, LineageEdge, LineageNode, NodeKind
from lakeward.model.lineage.query import ROWS_OF
from lakeward.model.lineage.statement import StatementLineage, statement_lineage
from lakeward.model.lineage.texts import DIALECT, delete_text
from lakeward.model.schema import Schema

UPSTREAM: Final = "upstream"
DOWNSTREAM: Final = "downstream"
_UNKNOWN: Final = LineageNode(NodeKind.UNKNOWN, "unknown")
_KINDS: Final = {"read": EdgeKind.READ, "files": EdgeKind.FILE, "declared": EdgeKind.DECLARED}
_BY_COLUMN: Final = frozenset({EdgeKind.VALUE, EdgeKind.CLONE, EdgeKind.RESTORE})
"""Edges between tables that have edges between columns beside them, or need none."""
_WHOLE: Final = frozenset({EdgeKind.CLONE})
"""Edges between tables by which the rows of one are those of the other."""
_OWN: Final = frozenset(
    {"CREATE TABLE", "DELETE", "UPDATE", "TRUNCATE", "RESTORE", "CLONE", "REMOVE FILES", "TXN"}
)
"""Operations that bring no rows from elsewhere."""


def lake_lineage(context: LakeContext, transaction_id: str | None) -> Lineage:
    """All edges of a lake, or of one transaction."""
    with context.database.read() as session:
        found = _Reading(session).edges(None, LIVE, transaction_id)
    return Lineage(None, UPSTREAM, *_sorted(found))


def table_lineage(
    context: LakeContext,
    head: Head,
    *,
    direction: str,
    depth: int | None,
    column: str | None,
    version: int | None,
) -> Lineage:
    """What a table or a column of it comes from, or what comes from it, over any number of steps.

    Raises:
        InvalidInput: The table has no such column, or never had.
    """
    with context.database.read() as session:
        reading = _Reading(session)
        root = LineageNode(NodeKind.TABLE, str(head.name), reading.checked(head, column))
        if direction == DOWNSTREAM:
            found = reading.edges(None, LIVE)
        else:
            found = reading.upstream(head, LIVE if version is None else version)
    if column is not None:
        kept = _reached_columns(root, found, direction, depth)
        return Lineage(root, direction, (), _sorted(kept, whole=True)[1])
    whole = [e for e in found if e.target.column is None]
    tables = _sorted(_reached(root, whole, direction, depth))[0]
    names = {n.name for e in tables for n in (e.source, e.target)}
    inner = [e for e in found if e.target.column is not None]
    within = [e for e in inner if e.target.name in names and e.source.name in names]
    columns = _sorted(within)[1]
    return Lineage(root, direction, tables, columns)


def _reached(
    root: LineageNode, edges: Sequence[LineageEdge], direction: str, depth: int | None
) -> set[LineageEdge]:
    """The edges between tables on ways from a table, of at most so many steps."""
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


def _reached_columns(
    root: LineageNode, edges: Sequence[LineageEdge], direction: str, depth: int | None
) -> set[LineageEdge]:
    """The edges on ways from a column, of at most so many steps.

    Where it is not known which columns come from a source, every column of the table may. A node
    without a column is which rows its table has: what decides about the rows of any column does.
    """
    up = direction == UPSTREAM
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
            new.update(exact.get(node, ()))
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
            # Where rows come or go, those change that only count the rows of the table.
            border |= {replace(e.target, column=None) for e in new if e.kind is EdgeKind.ROWS}
        border -= seen
        seen |= border
    return found


def _by_node(edges: Iterable[LineageEdge], *, up: bool) -> dict[LineageNode, list[LineageEdge]]:
    """Edges by the end from which they are followed."""
    found: dict[LineageNode, list[LineageEdge]] = {}
    for edge in edges:
        found.setdefault(edge.target if up else edge.source, []).append(edge)
    return found


def _sorted(
    edges: Sequence[LineageEdge] | set[LineageEdge], *, whole: bool = False
) -> tuple[tuple[LineageEdge, ...], tuple[LineageEdge, ...]]:
    """Edges between tables, and those between columns; with `whole` the latter are all."""
    own = sorted(edges, key=lambda e: (e.target, e.source, e.kind))
    if whole:
        return (), tuple(own)
    tables = tuple(e for e in own if e.target.column is None)
    return tables, tuple(e for e in own if e.target.column is not None)


def _deletion(commit: SourcedCommit, name: str) -> list[dict[str, Any]]:
    """The statement that a DELETE with a condition is, found from the commit."""
    condition = commit.info.parameters.get("predicate")
    if commit.info.operation != "DELETE" or not condition:
        return []
    text = delete_text(name, condition)
    tables = {name: (commit.table_id, commit.version - 1)}
    return [{"by": "sql", "text": text, "dialect": DIALECT, "tables": tables}]


class _Reading:
    """Reads edges from the log, with the names that tables and columns have now."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heads: dict[int, Head] = {}
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._statements: dict[Any, StatementLineage | None] = {}
        self._by_name = {str(h.name): h.table_id for h in heads.all_heads(session)}

    def checked(self, head: Head, column: str | None) -> str | None:
        """A column's name as the table spells it."""
        if column is None:
            return None
        names = self._schema(head.table_id, head.version).names
        for name in names:
            if name.lower() == str(column).lower():
                return name
        what = f"Table {head.name} has no column {column!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(names)}.", table=str(head.name))

    def upstream(self, head: Head, until: int) -> list[LineageEdge]:
        """The edges into a table up to a version, and into its sources as they were then."""
        found: dict[Any, LineageEdge] = {}
        waiting, done = {head.table_id: until}, dict[int, int]()
        while waiting:
            table_id, bound = waiting.popitem()
            if done.get(table_id, -1) >= bound:
                continue
            done[table_id] = bound
            for edge in self.edges(table_id, bound):
                found[edge.source, edge.target, edge.kind] = edge
                source = self._by_name.get(edge.source.name)
                if edge.source.kind is NodeKind.TABLE and source is not None and source != table_id:
                    at = LIVE if edge.source_version is None else edge.source_version
                    waiting[source] = max(at, waiting.get(source, -1))
        return list(found.values())

    def edges(
        self, table_id: int | None, until: int, transaction_id: str | None = None
    ) -> list[LineageEdge]:
        """The edges of commits of a table, a transaction, or of all; of equal ones the newest."""
        found: dict[Any, LineageEdge] = {}
        if transaction_id is None:
            chosen = lineage.commits(self._session, table_id, until)
        else:
            chosen = lineage.commits_of(self._session, transaction_id)
        for commit in chosen:
            for edge in self._of_commit(commit):
                found[edge.source, edge.target, edge.kind] = edge
        return list(found.values())

    def _of_commit(self, commit: SourcedCommit) -> Iterator[LineageEdge]:
        info, name = commit.info, str(self._head(commit.table_id).name)
        target = LineageNode(NodeKind.TABLE, name)

        def edge(
            source: LineageNode, kind: EdgeKind, at: int | None, to: LineageNode = target
        ) -> LineageEdge:
            own = info.transaction_id
            return LineageEdge(source, to, kind, info.operation, commit.version, at, own)

        if info.operation == "CLONE":
            yield from self._clone(commit, edge)
            return
        if info.operation == "RESTORE":
            yield edge(target, EdgeKind.RESTORE, None)
            return
        known = False
        for flow in commit.flows or _deletion(commit, name):
            for found in self._of_flow(commit, flow, edge):
                known = True
                yield found
        if not known and info.data_change and info.operation not in _OWN:
            yield edge(_UNKNOWN, EdgeKind.UNKNOWN, None)

    def _clone(self, commit: SourcedCommit, edge: Any) -> Iterator[LineageEdge]:
        parameters = commit.info.parameters
        version = int(parameters["sourceVersion"])
        source = str(parameters["source"])
        yield edge(LineageNode(NodeKind.TABLE, source), EdgeKind.CLONE, version)
        name = str(self._head(commit.table_id).name)
        for own in self._schema(commit.table_id, commit.version).names:
            yield edge(
                LineageNode(NodeKind.TABLE, source, own),
                EdgeKind.CLONE,
                version,
                LineageNode(NodeKind.TABLE, name, own),
            )

    def _of_flow(
        self, commit: SourcedCommit, flow: Mapping[str, Any], edge: Any
    ) -> Iterator[LineageEdge]:
        tables: dict[str, tuple[int, int]] = {n: tuple(v) for n, v in flow["tables"].items()}
        if "text" in flow:
            yield from self._of_statement(commit, flow, tables, edge)
            return
        if not self._is_about(commit, flow.get("target"), tables):
            return
        kind = _KINDS.get(flow["by"], EdgeKind.UNKNOWN)
        for path in flow.get("files", ()):
            yield edge(LineageNode(NodeKind.FILE, path), kind, None)
        for source, (table_id, version) in tables.items():
            if source != flow.get("target"):
                name = self._name(source, table_id)
                yield edge(LineageNode(NodeKind.TABLE, name), kind, version)

    def _of_statement(
        self,
        commit: SourcedCommit,
        flow: Mapping[str, Any],
        tables: Mapping[str, tuple[int, int]],
        edge: Any,
    ) -> Iterator[LineageEdge]:
        shapes = {
            name: tuple(self._schema(table_id, version).names)
            for name, (table_id, version) in tables.items()
            if table_id > 0
        }
        key = (flow["text"], flow["dialect"], tuple(sorted(shapes.items())))
        if key not in self._statements:
            self._statements[key] = statement_lineage(flow["text"], flow["dialect"], shapes)
        found = self._statements[key]
        if found is None or not self._is_about(commit, found.target, tables):
            return
        sure = EdgeKind.UNKNOWN if found.columns is None else EdgeKind.VALUE
        for source in sorted(found.tables):
            table_id, version = tables[source]
            if table_id != commit.table_id:
                node = LineageNode(NodeKind.TABLE, self._name(source, table_id))
                yield edge(node, sure, version)
        own = str(self._head(commit.table_id).name)
        for column, depends in (found.columns or {}).items():
            to = LineageNode(
                NodeKind.TABLE, own, self._now(commit.table_id, commit.version, column)
            )
            for kind, refs in ((EdgeKind.VALUE, depends.values), (EdgeKind.ROWS, depends.rows)):
                named = {source for source, name in depends.values | depends.rows if name}
                for source, name in sorted(refs):
                    table_id, version = tables[source]
                    if name == ROWS_OF and (source in named or table_id == commit.table_id):
                        # The rows of a table decide about each of its columns anyway.
                        continue
                    now = self._now(table_id, version, name) if name else None
                    node = LineageNode(NodeKind.TABLE, self._name(source, table_id), now)
                    yield edge(node, kind, version, to)

    def _is_about(
        self, commit: SourcedCommit, target: str | None, tables: Mapping[str, tuple[int, int]]
    ) -> bool:
        if target is None:
            return True
        if target in tables and tables[target][0] > 0:
            return tables[target][0] == commit.table_id
        # A table that the transaction made has no id when its statement runs.
        return target == str(self._head(commit.table_id).name)

    def _head(self, table_id: int) -> Head:
        if table_id not in self._heads:
            self._heads[table_id] = heads.ever_by_id(self._session, table_id)
        return self._heads[table_id]

    def _name(self, written: str, table_id: int) -> str:
        return str(self._head(table_id).name) if table_id > 0 else written

    def _schema(self, table_id: int, version: int) -> Schema:
        key = (table_id, version)
        if key not in self._schemas:
            self._schemas[key] = definitions.at(self._session, table_id, version)[1].schema
        return self._schemas[key]

    def _now(self, table_id: int, version: int, column: str) -> str:
        """The name that a column of a version has now; its old one if it is gone."""
        if table_id <= 0:
            return column
        then = self._schema(table_id, version).by_name.get(column)
        newest = self._schema(table_id, self._head(table_id).version)
        if then is None:
            return column
        return next((f.name for f in newest if f.id == then.id), column)
