"""The tables of a transaction for SQL engines: those of its cut, with its changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from lakeward.engines.sql.datafusion import DataFusionSession
from lakeward.engines.sql.pruning import Wanted, wanted
from lakeward.engines.sql.query import DIALECT, TableRef, quoted, read_query
from lakeward.engines.sql.source import Source
from lakeward.errors import LakewardError, TableNotFound
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.replacing import check_format, replacements
from lakeward.model.lineage.origin import of_query
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.read import moments
from lakeward.read.result import QueryResult, of_table
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.sources import source_of
from lakeward.write.commit.new_table import new_head
from lakeward.write.plan.change import Operation
from lakeward.write.tables.create import define
from lakeward.write.tables.own_policy import inherited
from lakeward.write.transaction.executor import NothingDone
from lakeward.write.transaction.lifecycle import Lifecycle
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.operating import Operating


class NewTable(NamedTuple):
    """The options of a table that a transaction creates, as `CREATE TABLE` in SQL has them."""

    format: str | None
    partition_by: Sequence[str]
    properties: Mapping[str, str]
    comment: str | None


class Seen:
    """Finds tables for statements, and runs queries over them."""

    def __init__(self, lifecycle: Lifecycle, operation: Callable[..., Operating[Member]]) -> None:
        self._lifecycle = lifecycle
        self._view = lifecycle.view
        self._operation = operation

    def names(self) -> list[TableName]:
        """Return the tables that the transaction sees."""
        return self._view.names()

    def knows(self, name: TableName) -> bool:
        """Return whether the transaction sees a table of this name."""
        return name in self._view.names()

    def name(self, parts: tuple[str, ...]) -> TableName:
        """Return the table of a name, in any case if that is unique; raise `TableNotFound`."""
        if len(parts) > 2:
            what = f"{'.'.join(parts)} is not the name of a table of the lake."
            raise TableNotFound(what, hint="Write name, or namespace.name.", table=".".join(parts))
        name = TableName(parts[0] if len(parts) == 2 else "", parts[-1])
        if self.knows(name):
            return name
        alike = [n for n in self.names() if str(n).lower() == str(name).lower()]
        if len(alike) == 1:
            return alike[0]
        with self._operation(str(name), reads=True):
            # Not found: the view raises the error, with similar names.
            return name

    def head(self, name: TableName) -> Head:
        """Return the head of a table at the transaction's cut."""
        with self._operation(str(name), reads=True) as member:
            return member.change.head

    def definition(self, name: TableName) -> Definition:
        """Return the definition of a table, with the transaction's changes."""
        with self._operation(str(name), reads=True) as member:
            return member.change.definition

    def place(self, head: Head) -> str:
        """Return the location of a table's files."""
        return self._view.context.storage.uri(head.location)

    def make(
        self, name: TableName, schema: Any, created: Any, *, in_place_of_new: bool = False
    ) -> None:
        """Create a table, which others see after the commit.

        With `in_place_of_new`, drop the table of that name that this transaction created; if the
        new one is refused, the old one stays.
        """
        format_, context = created.format or "delta", self._view.context
        definition = self._defined(name, format_, schema, created)
        with context.database.read() as session:
            head = new_head(context, session, name, format_, guard=True)
        if in_place_of_new:
            with self._operation(str(name)):
                self._lifecycle.executor.drop(name)
        self._view.register()
        member = self._view.make(head, replace(definition, created_ms=now_ms()))
        member.change.operations.append(Operation("CREATE TABLE", {}))

    def replace(self, name: TableName, schema: Any, created: Any, rows: pa.Table | None) -> bool:
        """Replace a table's columns and rows, as CREATE OR REPLACE TABLE; return whether it did.

        It changes nothing and returns False if this transaction created the table. `created` has
        the clauses of the statement; without `rows` the table is empty afterwards. If an alteration
        is refused after the rows were deleted, the transaction is rolled back.
        """
        with self._operation(str(name), reads=True) as member:
            if member.change.is_new:
                return False
            format_ = created.format or member.change.head.format
            try:
                check_format(str(name), member.change.head.format, format_)
                definition = self._defined(name, format_, schema, created)
                asked = list(replacements(member.change.definition, definition, created.properties))
            except LakewardError as error:
                raise NothingDone(error) from error
            executor = self._lifecycle.executor
            executor.delete(member, "true")
            try:
                executor.alter(member, asked)
                if rows is not None:
                    executor.append(member, rows)
            except NothingDone as refused:
                raise refused.error from None
        return True

    def _defined(self, name: TableName, format_: str, schema: Any, created: Any) -> Definition:
        return define(
            schema,
            format_,
            partition_by=created.partition_by,
            properties={**inherited(self._view.context, format_, name), **created.properties},
            constraints={},
            comment=created.comment,
            guard=True,
        )

    def query(self, text: str, params: Params | None, *, explain: bool = False) -> QueryResult:
        """Run a query over the tables as the transaction sees them now, or return its plan."""
        asked = read_query(text, params)
        session = DataFusionSession()
        try:
            tables = [self._source(ref) for ref in asked.tables]
            schemas = [table.schema for table in tables]
            needs = wanted(asked.tree, asked.nodes, schemas)
            names = [f"__lakeward_{n}" for n in range(len(tables))]
            for name, table, need in zip(names, tables, needs, strict=True):
                session.register(name, table.source(need))
            bound = asked.rewritten([quoted(n) for n in names], schemas)
            if explain:
                bound = bound._replace(text=f"EXPLAIN {bound.text}")
            pairs = zip(asked.tables, tables, strict=True)
            seen = {str(self.name(ref.parts)): table.seen for ref, table in pairs}
            rows = session.run(bound).reader().read_all()
            return of_table(rows, None if explain else of_query(text, DIALECT, seen))
        finally:
            session.close()

    def _source(self, ref: TableRef) -> _Current | _Older:
        """Return a table of a query: as the transaction sees it, or at the version in the query."""
        name, travel = self.name(ref.parts), ref.travel
        if travel is None:
            with self._operation(str(name), reads=True) as member:
                self._view.audit_read(member)
                return _Current(member)
        with self._operation(str(name), reads=True) as member:
            self._view.audit_read(member)
        head, context = self.head(name), self._view.context
        with context.database.read() as session:
            found = moments.at(
                context,
                session,
                head,
                version=travel.version,
                tag=travel.tag,
                timestamp=travel.timestamp,
            )
        return _Older(found)


class _Current:
    """A table with the transaction's changes; reads of it are recorded, to detect conflicts."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self.schema = member.change.definition.schema
        head = member.change.head
        self.seen = 0 if member.change.is_new else head.table_id, head.version

    def source(self, need: Wanted) -> Source:
        """Return the source of the rows and columns that a query needs."""
        self._member.change.reads.append(need.where)
        return source_of(self._member.seen(), need, self._member.planned)


class _Older:
    """A table at a version that the query gives; reads of it cannot conflict."""

    def __init__(self, snapshot: TableSnapshot) -> None:
        self._snapshot = snapshot
        self.schema = snapshot.schema
        self.seen = snapshot.log_head.table_id, snapshot.version

    def source(self, need: Wanted) -> Source:
        """Return the source of the rows and columns that a query needs."""
        return source_of(self._snapshot, need)
