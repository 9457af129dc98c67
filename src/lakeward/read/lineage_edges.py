"""Derives edges of lineage from the records of transactions and from the commits themselves.

Edges have the current names of tables and columns. If an earlier statement of the same transaction
wrote a table, that table is a source at the version which the transaction made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.log import definitions, heads, lineage, renames
from lakeward.log.codec import dumps
from lakeward.log.database import Session
from lakeward.log.lineage import SourcedCommit
from lakeward.model.commit import Head
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import DROPPED, EdgeKind, LineageEdge, LineageNode, NodeKind
from lakeward.model.lineage.origin import Origin
from lakeward.model.lineage.query import ROWS_OF, Ref
from lakeward.model.lineage.statement import (
    StatementLineage,
    analysed_origin,
    statement_lineage,
)
from lakeward.model.lineage.texts import DIALECT, delete_text
from lakeward.model.schema import Schema

_UNKNOWN: Final = LineageNode(NodeKind.UNKNOWN, "unknown")
_KINDS: Final = {"read": EdgeKind.READ, "files": EdgeKind.FILE, "declared": EdgeKind.DECLARED}
_OF_DEFINITIONS: Final = frozenset(
    {"CREATE TABLE", "ALTER TABLE", "RENAME TABLE", "SET TABLE", "UPGRADE PROTOCOL"}
    | {"ADD COLUMNS", "CHANGE COLUMN", "CHANGE COLUMNS", "RENAME COLUMN", "DROP COLUMNS"}
    | {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD CONSTRAINT", "DROP CONSTRAINT"}
)
"""Operations that change no rows; the names of Delta's own ones too, for adopted tables."""
_OWN: Final = _OF_DEFINITIONS | {
    *("DELETE", "UPDATE", "TRUNCATE", "RESTORE", "CLONE", "REMOVE FILES", "TXN"),
}
"""Operations that add no rows from other sources."""
_Versions = dict[str, tuple[int, int]]
"""The id and version of each table, by its name in a flow."""


class EdgeReader:
    """Reads edges from the log."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heads: dict[int, Head] = {}
        self._schemas: dict[tuple[int, int], Schema] = {}
        self._statements: dict[Any, StatementLineage | None] = {}
        self._made: dict[str, dict[str, tuple[int, int]]] = {}
        live = heads.all_heads(session)
        dropped = [head for head, _ in heads.dropped(session)]
        self._every = (*dropped, *live)
        self._shown = {h.table_id: str(h.name) for h in live} | _names_of_dropped(dropped)
        self._by_name = {name: table_id for table_id, name in self._shown.items()}
        self._by_uuid = {h.uuid: h.table_id for h in self._every}
        self._names = renames.AllNames(session)

    def names(self) -> list[tuple[int, str, int]]:
        """Return what edges take names from: each table's id, name and newest definition."""
        return [(h.table_id, self._shown[h.table_id], h.definition_id) for h in self._every]

    def newest(self) -> dict[int, int]:
        """Return the newest version of each table, by its id."""
        return {h.table_id: h.version for h in self._every}

    def checked(self, head: Head, column: str | None) -> str | None:
        """Return a column in the table's own spelling; raise `InvalidInput` if it is missing."""
        if column is None:
            return None
        names = self._schema(head.table_id, head.version).names
        for name in names:
            if name.lower() == str(column).lower():
                return name
        what = f"Table {head.name} has no column {column!r}."
        raise InvalidInput(what, hint=f"It has {', '.join(names)}.", table=str(head.name))

    def upstream(self, head: Head, until: int) -> list[LineageEdge]:
        """Return the edges into a table up to a version, and into its sources as they were then."""
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
        """Return the edges of the commits of a table up to `until`, of a transaction, or of all.

        Of equal edges only the newest is returned.
        """
        if transaction_id is None:
            return self.edges_of(lineage.commits(self._session, table_id, until))
        return self.edges_of(lineage.commits_of(self._session, transaction_id))

    def edges_of(self, commits: Iterable[SourcedCommit]) -> list[LineageEdge]:
        """Return the edges of some commits, given oldest first; of equal edges only the newest."""
        found: dict[Any, LineageEdge] = {}
        for commit in commits:
            for edge in self._of_commit(commit):
                found[edge.source, edge.target, edge.kind] = edge
        return list(found.values())

    def _of_commit(self, commit: SourcedCommit) -> Iterator[LineageEdge]:
        info, name = commit.info, self._name(commit.table_id)
        shown = self._node(commit.table_id, name).name
        edges = _EdgesOf(commit, shown, (commit.table_id, commit.version))
        if info.operation == "CLONE":
            yield from self._clone(commit, edges)
            return
        if info.operation == "RESTORE":
            yield edges.edge(LineageNode(NodeKind.TABLE, shown), EdgeKind.RESTORE, None)
            return
        known = False
        written: _Versions = {}
        for flow in commit.flows or _deletion(commit, name):
            tables = self._tables(commit, flow, written)
            for found in self._of_flow(commit, flow, tables, written, edges):
                known = True
                yield found
        if not known and info.data_change and not _operations(commit) <= _OWN:
            yield edges.edge(_UNKNOWN, EdgeKind.UNKNOWN, None)

    def _clone(self, commit: SourcedCommit, edges: _EdgesOf) -> Iterator[LineageEdge]:
        parameters = commit.info.parameters
        version = int(parameters["sourceVersion"])
        source = self._by_uuid.get(str(parameters.get("sourceId")), 0)
        node = self._node(source, str(parameters["source"]))
        yield edges.edge(node, EdgeKind.CLONE, version)
        for own in self._schema(commit.table_id, commit.version).names:
            column = self._now(source, version, own) or own
            to = self._now(commit.table_id, commit.version, own)
            yield edges.edge(replace(node, column=column), EdgeKind.CLONE, version, to)

    def _tables(
        self, commit: SourcedCommit, flow: Mapping[str, Any], written: _Versions
    ) -> _Versions:
        """Return the tables of a flow at the versions that it read, its target as committed."""
        made = self._made_by(commit) if len(commit.flows) > 1 else {}
        found: _Versions = {}
        for name, (table_id, version) in flow["tables"].items():
            is_new = table_id == 0
            own = commit.table_id, commit.version
            if table_id == commit.table_id or (is_new and name == self._then(commit)):
                found[name] = own
            elif is_new and name in made:
                # The transaction made the table, so it had no id when its statement ran.
                found[name] = made[name]
            else:
                found[name] = written.get(name, (table_id, version))
        return found

    def _made_by(self, commit: SourcedCommit) -> _Versions:
        """Return the versions that a transaction made, by the name that each table had then."""
        own = commit.info.transaction_id
        if own not in self._made:
            every = lineage.commits_of(self._session, own)
            self._made[own] = {self._then(c): (c.table_id, c.version) for c in every}
        return self._made[own]

    def _of_flow(
        self,
        commit: SourcedCommit,
        flow: Mapping[str, Any],
        tables: _Versions,
        written: _Versions,
        edges: _EdgesOf,
    ) -> Iterator[LineageEdge]:
        target, found = flow.get("target"), None
        if "text" in flow:
            found = self._statement(flow, tables)
            if found is None:
                return
            target = found.target
        if target is not None and not self._is_about(commit, target, tables):
            made = self._made_by(commit)
            if target in made:
                written[target] = made[target]
                return
            if target not in tables:
                return
            name = self._name(tables[target][0], target)
            # The table ended unchanged, so the transaction made no version of it; still, rows that
            # a later statement read from it came from its sources.
            edges = _EdgesOf(commit, self._node(tables[target][0], name).name, tables[target])
        if found is not None:
            yield from self._of_statement(flow, found, tables, edges)
        else:
            yield from self._of_sources(flow, tables, edges)

    def _of_sources(
        self, flow: Mapping[str, Any], tables: _Versions, edges: _EdgesOf
    ) -> Iterator[LineageEdge]:
        """Yield the edges of a flow that lists its sources, without columns."""
        kind = _KINDS.get(flow["by"], EdgeKind.UNKNOWN)
        if "branch" in flow:
            node = LineageNode(NodeKind.UNKNOWN, f"branch {flow['branch']}")
            yield edges.edge(node, EdgeKind.UNKNOWN, None)
        for path in flow.get("files", ()):
            yield edges.edge(LineageNode(NodeKind.FILE, path), kind, None)
        for source, (table_id, version) in tables.items():
            if source != flow.get("target") and table_id != edges.own[0]:
                node = self._node(table_id, source)
                yield edges.edge(node, kind, version)

    def _statement(self, flow: Mapping[str, Any], tables: _Versions) -> StatementLineage | None:
        shapes = {
            name: tuple(self._schema(table_id, version).names)
            for name, (table_id, version) in tables.items()
            if table_id > 0
        }
        seen = dumps(flow["views"]) if "views" in flow else ""
        key = (flow["text"], flow["dialect"], tuple(sorted(shapes.items())), seen)
        if key not in self._statements:
            views = {n: analysed_origin(o, shapes) for n, o in _views(flow, tables).items()}
            self._statements[key] = statement_lineage(flow["text"], flow["dialect"], shapes, views)
        return self._statements[key]

    def _of_statement(
        self,
        flow: Mapping[str, Any],
        found: StatementLineage,
        tables: _Versions,
        edges: _EdgesOf,
    ) -> Iterator[LineageEdge]:
        read = {n: o for n, o in _views(flow, tables).items() if n in found.views}
        sure = EdgeKind.UNKNOWN if found.columns is None else EdgeKind.VALUE
        for source in sorted(found.tables):
            table_id, version = tables[source]
            if table_id != edges.own[0]:
                node = self._node(table_id, source)
                yield edges.edge(node, sure, version)
        for path in sorted({p for o in read.values() for paths in o.files.values() for p in paths}):
            kind = EdgeKind.FILE if found.columns is None else EdgeKind.VALUE
            yield edges.edge(LineageNode(NodeKind.FILE, path), kind, None)
        if any(origin.memory for origin in read.values()):
            yield edges.edge(_UNKNOWN, EdgeKind.UNKNOWN, None)
        files = {name for origin in read.values() for name in origin.files}
        own = edges.own
        for column, depends in (found.columns or {}).items():
            to = self._now(*own, column) or column
            for kind, refs in (
                (EdgeKind.VALUE, depends.values),
                (EdgeKind.ROWS, depends.rows),
                (EdgeKind.CONDITION, depends.conditions),
            ):
                for ref in sorted(refs):
                    if ref[1] == ROWS_OF and tables.get(ref[0], (0,))[0] == own[0]:
                        # Each column of a table depends on the table's rows anyway.
                        continue
                    yield self._column_edge(ref, kind, to, tables, files, edges)

    def _column_edge(
        self,
        ref: Ref,
        kind: EdgeKind,
        to: str,
        tables: _Versions,
        files: set[str],
        edges: _EdgesOf,
    ) -> LineageEdge:
        source, name = ref
        if source in files:
            node = LineageNode(NodeKind.FILE, source, name or None)
            return edges.edge(node, kind, None, to)
        table_id, version = tables[source]
        now = self._now(table_id, version, name) if name else None
        node = replace(self._node(table_id, source), column=now)
        if now is None and kind is EdgeKind.VALUE:
            # A column that is not the table's, such as a file's name, only selects rows.
            kind = EdgeKind.ROWS
        return edges.edge(node, kind, version, to)

    def _is_about(self, commit: SourcedCommit, target: str, tables: _Versions) -> bool:
        if target in tables and tables[target][0] > 0:
            return tables[target][0] == commit.table_id
        return target == self._then(commit)

    def _head(self, table_id: int) -> Head:
        if table_id not in self._heads:
            self._heads[table_id] = heads.ever_by_id(self._session, table_id)
        return self._heads[table_id]

    def _name(self, table_id: int, written: str = "") -> str:
        return str(self._head(table_id).name) if table_id > 0 else written

    def _then(self, commit: SourcedCommit) -> str:
        """Return the name that the table of a commit had then, which its flows refer to."""
        return str(self._names.at(self._head(commit.table_id), commit.version))

    def _node(self, table_id: int, written: str) -> LineageNode:
        """Return the node of a table; a dropped one has a name that no other table has."""
        name = self._shown.get(table_id) or self._name(table_id, written)
        return LineageNode(NodeKind.TABLE, name)

    def _schema(self, table_id: int, version: int) -> Schema:
        key = (table_id, version)
        if key not in self._schemas:
            self._schemas[key] = definitions.at(self._session, table_id, version)[1].schema
        return self._schemas[key]

    def _now(self, table_id: int, version: int, column: str) -> str | None:
        """Return the current name of a column of a version; the old name if it was dropped since.

        Returns None if the version had no such column.
        """
        if table_id <= 0:
            return column
        then = self._schema(table_id, version).by_name.get(column)
        if then is None:
            return None
        newest = self._schema(table_id, self._head(table_id).version)
        return next((f.name for f in newest if f.id == then.id), column)


class _EdgesOf:
    """Creates the edges of one commit into one table."""

    def __init__(self, commit: SourcedCommit, table: str, own: tuple[int, int]) -> None:
        self._info = commit.info
        self._table = table
        self.own = own

    def edge(
        self, source: LineageNode, kind: EdgeKind, at: int | None, column: str | None = None
    ) -> LineageEdge:
        """Return an edge from a version of a source to the table, or to a column of it."""
        to = LineageNode(NodeKind.TABLE, self._table, column)
        info = self._info
        return LineageEdge(source, to, kind, info.operation, self.own[1], at, info.transaction_id)


def _names_of_dropped(dropped: Sequence[Head]) -> dict[int, str]:
    """Return names of dropped tables that differ from each other and from those of live tables."""
    count = Counter(head.name for head in dropped)
    return {
        head.table_id: f"{head.name}{DROPPED})"
        if count[head.name] == 1
        else f"{head.name}{DROPPED}, id {head.table_id})"
        for head in dropped
    }


def _operations(commit: SourcedCommit) -> set[str]:
    """Return the operations of a commit; a transaction with several lists their names."""
    info = commit.info
    if info.operation != "TRANSACTION":
        return {info.operation}
    return set(str(info.parameters.get("operations", info.operation)).split(", "))


def _views(flow: Mapping[str, Any], tables: _Versions) -> dict[str, Origin]:
    return {n: Origin.of_json(body, tables) for n, body in flow.get("views", {}).items()}


def _deletion(commit: SourcedCommit, name: str) -> list[dict[str, Any]]:
    """Return the statement of a DELETE with a condition, derived from the commit, as a flow."""
    condition = commit.info.parameters.get("predicate")
    if commit.info.operation != "DELETE" or not condition:
        return []
    text = delete_text(name, condition)
    tables = {name: (commit.table_id, commit.version - 1)}
    return [{"by": "sql", "text": text, "dialect": DIALECT, "tables": tables}]
