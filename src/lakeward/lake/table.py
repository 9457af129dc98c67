"""A table of the lake, as a user holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, LakewardError
from lakeward.lake.altering import TableAlter
from lakeward.lake.transactions import Transactions
from lakeward.lake.writable import Writable
from lakeward.log import audit, commits, heads
from lakeward.log.audit import AuditEntry
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_ms
from lakeward.model.commit import Head
from lakeward.model.constraints import Constraint, declared
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, LoggedFile
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.read import snapshot as snapshots
from lakeward.read.diff import Diff, diff
from lakeward.read.history import Entry, Version, entries, version_of
from lakeward.read.readable import Readable
from lakeward.read.schemas import SchemaVersion, schemas_of
from lakeward.read.snapshot import TableSnapshot, Totals
from lakeward.write.commit.publications import current


class Table(Readable, Writable):
    """A named table. Each access to a property reads the table's current state."""

    def __init__(self, context: LakeContext, name: TableName, transactions: Transactions) -> None:
        self._context = context
        self._name = name
        self._transactions = transactions

    def __repr__(self) -> str:
        try:
            with self._context.database.read() as session:
                head = heads.get(session, self._name)
                schema = self._context.definition(session, head).schema
        except LakewardError as error:
            return f"Table({self.name!r}, {type(error).__name__})"
        return (
            f"Table({self.name!r}, format={head.format!r}, version={head.version},"
            f" columns={snapshots.columns_line(schema)!r})"
        )

    def _repr_html_(self) -> str:
        return self.at()._repr_html_()

    @property
    def name(self) -> str:
        """The full name."""
        return str(self._name)

    @property
    def version(self) -> int:
        """The newest version."""
        return self._head().version

    @property
    def schema(self) -> Schema:
        """The columns now."""
        return self.definition.schema

    @property
    def definition(self) -> Definition:
        """Schema, partitioning, properties, constraints and protocol now."""
        head = self._head()
        with self._context.database.read() as session:
            return self._context.definition(session, head)

    @property
    def properties(self) -> dict[str, str]:
        """What was set for the table."""
        return dict(self.definition.properties)

    @property
    def constraints(self) -> dict[str, str | Constraint]:
        """Constraints by name: plain checks as text, the others as they were declared."""
        return declared(self.definition)

    @property
    def partition_by(self) -> list[str]:
        """What the table is partitioned by, as `lake.create` takes it: `day(ts)`, `region`."""
        return self.definition.partitioning

    @property
    def location(self) -> str:
        """Where the table's files are, as other engines take it."""
        return self._context.storage.uri(self._head().location)

    @property
    def metadata_location(self) -> str | None:
        """The Iceberg metadata document by which other engines open the table, if it is one."""
        return self._head().pointer

    @property
    def format(self) -> str:
        """`delta` or `iceberg`."""
        return self._head().format

    @property
    def guarded(self) -> bool:
        """Whether stray writers are kept out."""
        return self._head().guarded

    @property
    def uuid(self) -> str:
        """The table's own id, whatever it is called."""
        return self._head().uuid

    def totals(self) -> Totals:
        """How many files, bytes and rows the table has now."""
        return self.at().totals()

    def history(
        self, *, limit: int | None = None, since: int | None = None, until: int | None = None
    ) -> list[Version]:
        """Versions, newest first.

        Args:
            limit: At most so many.
            since: None older than this version.
            until: None newer than this version.
        """
        low = -1 if since is None else arguments.whole(since, "since", least=-LIVE)
        high = LIVE if until is None else arguments.whole(until, "until", least=-LIVE)
        most = LIVE if limit is None else arguments.whole(limit, "limit")
        head = self._head()
        with self._context.database.read() as session:
            found = commits.history(session, head.table_id, low=low, high=high, limit=most)
        return [version_of(c) for c in found]

    def versions(
        self, *, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> list[Version]:
        """Versions of a time range, oldest first."""
        low = -LIVE if since is None else to_ms(since)
        high = LIVE if until is None else to_ms(until)
        head = self._head()
        with self._context.database.read() as session:
            found = commits.between(session, head.table_id, low, high)
        return [version_of(c) for c in found]

    def at(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
    ) -> TableSnapshot:
        """The table at a version or at a moment; as it is now when neither is given."""
        if tag is not None:
            what = "Tags are not kept yet."
            raise InvalidInput(what, hint="Use version= or timestamp=.")
        if version is not None and timestamp is not None:
            what = "Give a version or a timestamp, not both."
            raise InvalidInput(what)
        if version is not None:
            arguments.whole(version, "version", least=-LIVE)
        head = self._head()
        with self._context.database.read() as session:
            if version is not None:
                return snapshots.at_version(self._context, session, head, version)
            if timestamp is not None:
                return snapshots.at_time(self._context, session, head, timestamp)
            return snapshots.latest(self._context, session, head)

    def alter(self, *, message: str | None = None) -> TableAlter:
        """Change columns, properties, checks and features, all at once, by `commit` at the end.

        `table.alter(message="…").add_column("currency", "string").set_nullable("note").commit()`

        Args:
            message: Why; kept with the commit.
        """
        return TableAlter(self._transactions, self._name, message)

    def schemas(self) -> list[SchemaVersion]:
        """Every schema that the table had, oldest first, with its versions, who, when and why."""
        head = self._head()
        with self._context.database.read() as session:
            return schemas_of(session, head)

    def diff(self, a: int, b: int) -> Diff:
        """What changed from version `a` to version `b`."""
        for value, parameter in ((a, "a"), (b, "b")):
            arguments.whole(value, parameter, least=-LIVE)
        return diff(self.at(version=a), self.at(version=b))

    def files(self, *, where: str | None = None) -> list[LoggedFile]:
        """The files now, or those of them that may hold a matching row."""
        return self.at().files(where=where)

    def to_reader(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows now, as a stream of record batches.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        return self.at().to_reader(columns=columns, where=where)

    def count(self, where: str | None = None) -> int:
        """How many rows there are now, or how many of them satisfy a condition.

        The log answers where it can; only files that it cannot answer for are read.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
        """
        return self.at().count(where)

    def entries(self, *, version: int | None = None) -> list[Entry]:
        """Every action of a version, of the newest one unless said otherwise."""
        snapshot = self.at(version=version)
        with self._context.database.read() as session:
            return list(entries(session, snapshot.log_head, snapshot.definition, snapshot.version))

    def audit(self) -> Iterator[AuditEntry]:
        """Who did what, oldest first."""
        head = self._head()
        with self._context.database.read() as session:
            yield from audit.entries(session, head.table_id)

    def app_version(self, app_id: str) -> int | None:
        """The number that an application recorded last with `tx.record`."""
        arguments.text(app_id, "app_id")
        head = self._head()
        with self._context.database.read() as session:
            found = commits.app_transactions_at(session, head.table_id, head.version)
        return next((a.version for a in found if a.app_id == app_id), None)

    def age_seconds(self) -> float:
        """How long ago the newest version was committed."""
        return max(0.0, (now_ms() - self._head().timestamp_ms) / 1000)

    def _head(self) -> Head:
        return current(self._context, self._name)
