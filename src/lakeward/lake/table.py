"""A table of the lake: the object that `lake.table` returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.lake.changed import Changed
from lakeward.lake.frames import Frames
from lakeward.lake.maintenance import TableMaintenance
from lakeward.lake.optimizing import Optimizable
from lakeward.lake.past import Past
from lakeward.lake.quality import Measured
from lakeward.lake.transactions import Transactions
from lakeward.lake.writable import Writable
from lakeward.log import audit, commits, heads
from lakeward.log.audit import AuditEntry
from lakeward.log.sizes import SizeClass
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_ms
from lakeward.model.commit import Head
from lakeward.model.constraints import Constraint, declared
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, LoggedFile
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.model.schema import Schema
from lakeward.model.shown import ShownList
from lakeward.read import moments
from lakeward.read.describe import Totals, columns_line
from lakeward.read.exportable import Exportable
from lakeward.read.freshness import changed_ms
from lakeward.read.history import Entry, Version, entries, version_of
from lakeward.read.readable import Readable
from lakeward.read.schemas import SchemaVersion, schemas_of
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.totals import KnownSizes
from lakeward.write.commit.publications import current

if TYPE_CHECKING:
    from lakeward.lake.altering import TableAlter
    from lakeward.model.lineage.origin import Origin

_OF_HISTORY: Final = ("version", "timestamp", "operation", "changed", "actor", "message")


class Table(
    Past,
    Readable,
    Exportable,
    Frames,
    Writable,
    Changed,
    Optimizable,
    TableMaintenance,
    Measured,
):
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
            f" columns={columns_line(schema)!r})"
        )

    def _repr_html_(self) -> str:
        return self.at()._repr_html_()

    def _lineage_origin(self) -> Origin:
        return self.at()._lineage_origin()

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
        """The columns of the newest version."""
        return self.definition.schema

    @property
    def definition(self) -> Definition:
        """Schema, partitioning, properties, constraints and protocol of the newest version."""
        head = self._head()
        with self._context.database.read() as session:
            return self._context.definition(session, head)

    @property
    def properties(self) -> dict[str, str]:
        """The properties that were set for the table."""
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
        """The directory or URL of the table's files, as other engines take it."""
        return self._context.storage.uri(self._head().location)

    @property
    def metadata_location(self) -> str | None:
        """The newest metadata document of an Iceberg table; None for a Delta table."""
        return self._head().pointer

    @property
    def format(self) -> str:
        """`delta` or `iceberg`."""
        return self._head().format

    @property
    def guarded(self) -> bool:
        """Whether the table has the guard, which keeps out writers other than Lakeward."""
        return self._head().guarded

    @property
    def uuid(self) -> str:
        """The table's id, which stays the same if the table is renamed."""
        return self._head().uuid

    def totals(self) -> Totals:
        """Return the number of files, bytes and rows of the newest version."""
        return self.at().totals()

    def history(
        self, *, limit: int | None = None, since: int | None = None, until: int | None = None
    ) -> list[Version]:
        """Return the versions, newest first.

        Args:
            limit: How many to return at most.
            since: The oldest version to return.
            until: The newest version to return.
        """
        low = -1 if since is None else arguments.whole(since, "since", least=-LIVE)
        high = LIVE if until is None else arguments.whole(until, "until", least=-LIVE)
        most = LIVE if limit is None else arguments.whole(limit, "limit")
        head = self._head()
        with self._context.database.read() as session:
            found = commits.history(session, head.table_id, low=low, high=high, limit=most)
        title = f"History of {head.name}"
        return ShownList(map(version_of, found), title, _OF_HISTORY)

    def versions(
        self, *, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> list[Version]:
        """Return the versions that were committed in a time range, oldest first."""
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
        transaction: str | None = None,
    ) -> TableSnapshot:
        """Return the table at a version, time, tag or transaction; by default as it is now.

        Args:
            version: This version.
            timestamp: The newest version that is not later than this time.
            tag: The table's version in this tag.
            transaction: The version right after the transaction of this id, even if it changed only
                other tables.

        Raises:
            VersionNotFound: The table has no such version, or did not exist at that time.
            NotFound: The lake has no such tag.
            TransactionNotFound: No such transaction was committed.
        """
        if transaction is not None:
            moments.wait_for_earlier(self._context, arguments.text(transaction, "transaction"))
        head = self._head()
        with self._context.database.read() as session:
            return moments.at(
                self._context,
                session,
                head,
                version=version,
                timestamp=timestamp,
                tag=tag,
                transaction=transaction,
            )

    def alter(self, *, message: str | None = None) -> TableAlter:
        """Return a builder that collects changes of the definition and makes them with `commit`.

        `table.alter(message="…").add_column("currency", "string").set_nullable("note").commit()`

        Args:
            message: Why; kept with the commit.
        """
        from lakeward.lake.altering import TableAlter

        return TableAlter(self._transactions, self._name, message)

    def schemas(self) -> list[SchemaVersion]:
        """Return every schema that the table had, oldest first.

        Each has its range of versions, and who changed the schema, when and why.
        """
        head = self._head()
        with self._context.database.read() as session:
            return schemas_of(session, head)

    def files(self, *, where: str | None = None, params: Params | None = None) -> list[LoggedFile]:
        """Return the files of the newest version, or those that may have a matching row."""
        return self.at().files(where=where, params=params)

    def file_sizes(self) -> list[SizeClass]:
        """Return the number of files of the newest version by class of size, smallest first."""
        head = self._head()
        with self._context.database.read() as session:
            return list(self._context.cache(KnownSizes).at(session, head.table_id, head.version))

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the current rows as a stream of record batches.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        return self.at().to_reader(columns=columns, where=where, params=params)

    def _first_rows(
        self, columns: Sequence[str] | None, where: str | None, params: Params | None
    ) -> pa.RecordBatchReader:
        return self.at()._first_rows(columns, where, params)

    def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of current rows, or of those that satisfy a condition.

        The count comes from the log if possible; only files without sufficient statistics are read.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        return self.at().count(where, params=params)

    def entries(self, *, version: int | None = None) -> list[Entry]:
        """Return every action of a version; the newest version unless given."""
        snapshot = self.at(version=version)
        with self._context.database.read() as session:
            return list(entries(session, snapshot.log_head, snapshot.definition, snapshot.version))

    def audit(self) -> Iterator[AuditEntry]:
        """Yield the entries of the table's audit trail, oldest first."""
        head = self._head()
        with self._context.database.read() as session:
            yield from audit.entries(session, head.table_id)

    def app_version(self, app_id: str) -> int | None:
        """Return the number that an application last recorded with `tx.record`, None if none."""
        arguments.text(app_id, "app_id")
        head = self._head()
        with self._context.database.read() as session:
            found = commits.app_transactions_at(session, head.table_id, head.version)
        return next((a.version for a in found if a.app_id == app_id), None)

    def age_seconds(self) -> float:
        """Return how many seconds ago the newest version was committed."""
        return max(0.0, (now_ms() - self._head().timestamp_ms) / 1000)

    def freshness(self) -> float:
        """Return how many seconds ago data was last changed; a compaction changes no data."""
        head = self._head()
        with self._context.database.read() as session:
            found = changed_ms(session, head, head.version)
        return max(0.0, (now_ms() - (head.timestamp_ms if found is None else found)) / 1000)

    def _snapshot(self) -> TableSnapshot:
        return self.at()

    def _head(self) -> Head:
        return current(self._context, self._name)
