"""A dataset of a lake: rows that are read from its location and written by its options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from lakeward.engines.arrow.dataset import LakeDataset, Plan
from lakeward.engines.datafusion import scan_delta_at
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound, UnsupportedFeature
from lakeward.integrations.datasets.location import DatasetLocation
from lakeward.integrations.writing import WriteOptions, write_rows
from lakeward.lake.lake import Lake
from lakeward.model.constraints import Constraint
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.names import TableName
from lakeward.model.parameters import Params
from lakeward.read.auditing import audit_read
from lakeward.read.dataset import audited, both, dataset_of
from lakeward.read.readable import Readable
from lakeward.read.scan import check_columns, read_files
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.timing import timed
from lakeward.write.plan.retry import Retry
from lakeward.write.tables.own_policy import made_with
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


@dataclass(frozen=True, kw_only=True)
class Dataset(Readable):
    """A named location of rows, with options. It has all methods to read that a table has.

    Attributes:
        lake: The lake whose tables are read and written.
        location: The table or path of the rows, and which of them are read.
        write_options: How rows are written; arguments of `write` override them.
        retry: How often a write is tried again after a conflict; that of the table's policy unless
            given.
        lock: The lock to hold on the table while it is written, such as `write`; None for none.
        policy: The policy that the table gets if it is made.
        constraints: The constraints that the table gets if it is made.
        name: The name of the dataset.
    """

    lake: Lake = field(repr=False)
    location: DatasetLocation
    write_options: WriteOptions = field(default_factory=WriteOptions)
    retry: Retry | None = None
    lock: str | None = None
    policy: Mapping[str, Any] = field(default_factory=dict)
    constraints: Mapping[str, str | Constraint] = field(default_factory=dict)
    name: str | None = None

    def snapshot(self) -> TableSnapshot:
        """Return the table of the lake at the location's version.

        Raises:
            TableNotFound: The lake has no such table.
            VersionNotFound: The table has no such version.
            InvalidInput: The table does not have the format of the location.
            UnsupportedFeature: The dataset is at a path, not in the lake.
        """
        place = self.location
        if place.table is None:
            what = f"{place.path} is not a table of the lake."
            raise UnsupportedFeature(what, hint="lake.adopt takes it into the lake.")
        table = self.lake.table(place.table)
        if place.format is not None and table.format != place.format:
            what = f"Table {place.table} has the format {table.format}, not {place.format}."
            raise InvalidInput(what, table=place.table, parameter="format")
        return table.at(version=place.version, timestamp=place.timestamp)

    def files(self, where: Expression | None = None) -> list[LoggedFile]:
        """Return the files that are read, without those that cannot have rows matching `where`.

        Raises:
            InvalidInput: A file of the location is not a file of the version.
        """
        return self._planned(self.snapshot(), where)

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches.

        Args:
            columns: Names, in the order wanted; those of the location when None.
            where: A SQL boolean expression; rows must satisfy it and that of the location.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        place = self.location
        names = place.columns if columns is None else columns
        if place.path is not None:
            if where is not None or place.where is not None:
                what = f"Conditions are for tables of the lake, not for {place.path}."
                raise UnsupportedFeature(what, hint="Take it into the lake with lake.adopt.")
            return scan_delta_at(
                place.path,
                version=place.version,
                timestamp=place.timestamp,
                columns=names,
                options=place.storage_options,
                access=place.access,
            )
        snapshot = self.snapshot()
        check_columns(names, snapshot.definition, snapshot.name)
        own, more = snapshot.parsed(place.where), snapshot.parsed(where, params)
        condition = both(own, more)
        files = self._planned(snapshot, condition)
        context, head = snapshot.context, snapshot.log_head
        audit_read(context, head, snapshot.version, "rows", columns=names)
        reader = read_files(
            context.storage,
            head,
            snapshot.definition,
            files,
            columns=names,
            where=condition,
            access=place.access,
        )
        return timed(context, [snapshot], "rows", reader)

    def to_dataset(self) -> LakeDataset:
        """Return an Arrow dataset of the location's columns and rows, for engines that filter."""
        snapshot, place = self.snapshot(), self.location
        check_columns(place.columns, snapshot.definition, snapshot.name)
        where = snapshot.parsed(place.where)
        audited(snapshot)
        plan = self._planned_by(snapshot)
        return dataset_of(snapshot, plan, columns=place.columns, where=where, access=place.access)

    def write(
        self,
        data: Any,
        *,
        message: str | None = None,
        properties: Mapping[str, str] | None = None,
        **options: Any,
    ) -> CommitResult:
        """Write rows to the table in one transaction; create the table if it does not exist.

        Args:
            data: As in `Transaction.append`. With a stream, which cannot be read twice, the write
                is not tried again after a conflict.
            message: Why; kept with the commit.
            properties: Additional properties, which are kept with the commit and published.
            **options: Fields of `WriteOptions` that replace those of the dataset.

        Raises:
            UnsupportedFeature: The dataset is at a path, at an older version, or has only some
                files, columns or rows of the table.
            AlreadyExists: The mode is `error`, and the table exists.
            Conflict: Others changed the same rows meanwhile.
        """
        name, how = self._writable(), replace(self.write_options, **options)

        def write(tx: Transaction) -> Any:
            if not self._exists(name):
                made, checks = self._made(name, how)
                # Another process may create it meanwhile: then the mode decides.
                with suppress(AlreadyExists):
                    return write_rows(tx, name, data, made, exists=False, constraints=checks)
            return write_rows(tx, name, data, how, exists=True)

        once = isinstance(data, pa.RecordBatchReader) or hasattr(data, "__next__")
        return self.lake.run(
            write,
            retry=Retry(attempts=1) if once else self.retry,
            message=message,
            locks={name: self.lock} if self.lock and self._exists(name) else None,
            properties=properties,
        )

    def _writable(self) -> str:
        place = self.location
        narrowed = (place.version, place.timestamp, place.files, place.columns, place.where)
        if place.table is None or any(value is not None for value in narrowed):
            what = f"Dataset {self.name or place.place} is only for reading."
            hint = "Write to a dataset of a whole table of the lake, at its newest version."
            raise UnsupportedFeature(what, hint=hint)
        return place.table

    def _exists(self, name: str) -> bool:
        try:
            self.lake.table(name)
        except TableNotFound:
            return False
        return True

    def _made(
        self, name: str, how: WriteOptions
    ) -> tuple[WriteOptions, dict[str, str | Constraint]]:
        """Return the options and the constraints with which the table is created."""
        context, settings = self.lake._context, how.properties or {}
        parsed = TableName.parse(name)
        properties, checks = made_with(context, how.format, parsed, self.policy, settings)
        return replace(how, properties=properties), {**checks, **self.constraints}

    def _planned_by(self, snapshot: TableSnapshot) -> Plan:
        return lambda where: self._planned(snapshot, where)

    def _planned(self, snapshot: TableSnapshot, where: Expression | None) -> list[LoggedFile]:
        wanted = self.location.files
        # Bloom filters are in data files, which only the location's own filesystem may read.
        found = snapshot.plan(where, probe_files=self.location.filesystem is None)
        if wanted is None:
            return found
        root = f"{snapshot.context.storage.uri(snapshot.log_head.location)}/"
        names = {name.removeprefix(root) for name in wanted}
        there = {f.path for f in (found if where is None else snapshot.plan())}
        missing = sorted(names - there)
        if missing:
            what = f"{missing[0]} is not a file of version {snapshot.version} of {snapshot.name}."
            hint = "table.at(version=…).files() lists the files of a version."
            raise InvalidInput(what, hint=hint, table=snapshot.name, version=snapshot.version)
        return [f for f in found if f.path in names]
