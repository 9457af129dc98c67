"""Snapshots: a table at a version, and several tables at one consistent cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.errors import FileMissing, LakewardError, VersionNotFound
from lakeward.formats.registry import light_format_of
from lakeward.log import commits, definitions, retired
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.names import TableName
from lakeward.model.parameters import Params, where_text
from lakeward.model.schema import Schema
from lakeward.model.shown import html_table
from lakeward.read.describe import (
    Page,
    PageColumn,
    TableDetails,
    TableInfo,
    Totals,
    columns_line,
    columns_of,
    pages_of,
    rows_line,
)
from lakeward.read.exportable import Exportable
from lakeward.read.lazy import Lazy
from lakeward.read.readable import Readable
from lakeward.read.totals import KnownTotals

if TYPE_CHECKING:
    from lakeward.model.expressions.nodes import Expression
    from lakeward.model.lineage.origin import Origin
    from lakeward.model.policy.rules import EffectivePolicy

_PAGE_ROWS: Final = 10_000


@dataclass(frozen=True, repr=False)
class TableSnapshot(Lazy, Readable, Exportable):
    """A table at one version; it never changes."""

    _internal: ClassVar = frozenset(
        {"context", "log_head", "name_then", "parsed", "plan", "timestamp_ms"}
    )

    context: LakeContext
    log_head: Head
    version: int
    timestamp_ms: int
    definition: Definition
    name_then: TableName | None = None

    @property
    def name(self) -> str:
        """The table's full name; in a cut of the lake, the name that it had then."""
        return str(self.name_then or self.log_head.name)

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return to_datetime(self.timestamp_ms)

    def _lineage_origin(self) -> Origin:
        from lakeward.model.lineage.origin import of_table

        version = self.log_head.table_id, self.version
        return of_table(str(self.log_head.name), version, self.schema.names)

    @property
    def schema(self) -> Schema:
        """The columns at that version."""
        return self.definition.schema

    @property
    def snapshot_id(self) -> int | None:
        """The id of this version's Iceberg snapshot; None if it has none."""
        known = light_format_of(self.log_head)
        return known.snapshot_id(self.context, self.log_head, self.version)

    @property
    def metadata_location(self) -> str | None:
        """The newest metadata document of an Iceberg table; None for a Delta table.

        It lists snapshots of older versions too.
        """
        return self.log_head.pointer

    def files(self, *, where: str | None = None, params: Params | None = None) -> list[LoggedFile]:
        """Return the files of the version, or those that may hold a matching row.

        Args:
            where: A SQL boolean expression over the table's columns.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        return self.plan(self.parsed(where, params))

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, for more than fits in memory.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        condition = self.parsed(where, params)
        return self._released(columns, self._rows(columns, self.plan(condition), condition))

    def _first_rows(
        self, columns: Sequence[str] | None, where: str | None, params: Params | None
    ) -> pa.RecordBatchReader:
        from lakeward.read.paging import rows_in_order

        if self.parsed(where, params) is not None:
            return self.to_reader(columns=columns, where=where, params=params)
        rows = rows_in_order(self, lambda part: self._rows(columns, part), self._check_readable)
        return self._released(columns, rows)

    def _rows(
        self,
        columns: Sequence[str] | None,
        found: list[LoggedFile],
        where: Expression | None = None,
    ) -> pa.RecordBatchReader:
        from lakeward.read.scan import check_columns, read_files

        check_columns(columns, self.definition, self.name)
        storage, head, definition = self.context.storage, self.log_head, self.definition
        try:
            reader = read_files(storage, head, definition, found, columns=columns, where=where)
        except FileMissing as error:
            raise self._gone(error) from error
        if self.version != self.log_head.version:
            old = self._old_batches(reader)
            reader = pa.RecordBatchReader.from_batches(reader.schema, old)
        return reader

    def _released(
        self, columns: Sequence[str] | None, reader: pa.RecordBatchReader
    ) -> pa.RecordBatchReader:
        """Return rows to the caller: audit and time the read."""
        from lakeward.read.timing import timed

        self._audit("rows", columns)
        return timed(self.context, [self], "rows", reader)

    def _audit(self, how: str, columns: Sequence[str] | None = None) -> None:
        """Record that rows are read, if the table's present policy requires it."""
        from lakeward.read.auditing import audit_read

        head = self.log_head
        newest = self.definition if self.version == head.version else None
        audit_read(self.context, head, self.version, how, columns=columns, definition=newest)

    def _old_batches(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """Yield the batches of an older version, whose files may have been deleted."""
        try:
            with reader:
                yield from reader
        except FileMissing as error:
            raise self._gone(error) from error

    def _gone(self, error: FileMissing) -> LakewardError:
        if self.version == self.log_head.version:
            return error
        from lakeward.read.retention import gone

        return gone(self.context, self.log_head, self.version, error.facts.get("path"))

    def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of rows, or of those that satisfy a condition.

        The count comes from the log if possible; only files without sufficient statistics are read.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        from lakeward.read.counting import count_rows

        if where is None:
            known = self.totals().rows
            if known is not None:
                return known
        condition = self.parsed(where, params)
        head, storage = self.log_head, self.context.storage
        self._audit("count")
        return count_rows(storage, head, self.definition, condition, self.plan(condition))[0]

    def plan(
        self, where: Expression | None = None, *, probe_files: bool = True
    ) -> list[LoggedFile]:
        """Return the files to read for an expression over this snapshot's schema, oldest first.

        Args:
            where: A condition; files that cannot have matching rows are left out.
            probe_files: Also use the Bloom filters, which are in the files.
        """
        from lakeward.read.plan import plan, to_prune_by

        condition = to_prune_by(where, self.definition)
        with self.context.database.read() as session:
            found = list(plan(session, self.log_head.table_id, self.version, condition))
            self._check_readable(session)
        found.sort(key=lambda f: (f.added, f.ordinal))
        if where is None or len(found) < 2 or not probe_files:
            return found
        from lakeward.formats.policy import blooms_of

        if not blooms_of(self.log_head, self.definition):
            return found
        from lakeward.read.blooms import without_excluded

        head, storage = self.log_head, self.context.storage
        return without_excluded(storage, head, self.definition, found, where)

    def totals(self) -> Totals:
        """Return the number of files, bytes and rows of the version."""
        known, head = self.context.cache(KnownTotals), self.log_head
        with self.context.database.read() as session:
            found = known.at(session, head.table_id, self.version)
            self._check_readable(session)
        return Totals(found.files, found.size, found.live_rows)

    @property
    def policy(self) -> EffectivePolicy:
        """Return the effective policy of this version, and where each field comes from."""
        from lakeward.read.policies import at_version

        with self.context.database.read() as session:
            return at_version(session, self.log_head, self.version)

    def _snapshot(self) -> TableSnapshot:
        return self

    def info(self) -> TableInfo:
        """Return a short record of the version: format, size, location."""
        return TableInfo(**self._line())

    def details(self) -> TableDetails:
        """Return a record of the version with its columns, checks, properties and protocol."""
        head, definition = self.log_head, self.definition
        return TableDetails(
            **self._line(),
            newest_version=head.version,
            uuid=head.uuid,
            drift=None if head.guarded else head.drift,
            snapshot_id=self.snapshot_id,
            metadata_location=self.metadata_location,
            comment=definition.comment,
            schema=columns_of(definition.schema),
            partition_by=tuple(definition.partitioning),
            constraints=definition.constraints,
            properties=definition.properties,
            protocol=definition.protocol,
        )

    def page(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        offset: int = 0,
        limit: int = 20,
    ) -> Page:
        """Return some rows, as a record for display.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
            offset: How many rows to skip.
            limit: How many rows to read at most.
        """
        return next(
            self.pages(columns=columns, where=where, params=params, offset=offset, limit=limit)
        )

    def pages(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        offset: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Iterator[Page]:
        """Yield the rows page by page, for more than fits in memory; at least one page.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
            offset: How many rows to skip.
            limit: How many rows to read at most; all when None.
            size: How many rows a page has; as many as `limit` when None.
        """
        reader = self._first_rows(columns, where, params)
        fields = (self.schema.by_name[name] for name in reader.schema.names)
        schema = tuple(PageColumn(f.name, str(f.type), f.nullable) for f in fields)
        for rows, more in pages_of(reader, offset, limit, size or limit or _PAGE_ROWS):
            yield Page(self.name, self.version, self.timestamp, schema, offset, rows, more)
            offset += rows.num_rows

    def __repr__(self) -> str:
        moment = f"{self.timestamp:%Y-%m-%d %H:%M:%S} UTC"
        return (
            f"TableSnapshot({self.name!r}, version={self.version}, timestamp={moment!r},"
            f" columns={columns_line(self.schema)!r})"
        )

    def _repr_html_(self) -> str:
        details = self.details()
        title = f"{self.name}, version {self.version} ({details.format}, {rows_line(details.rows)})"
        fields = ([c.name, c.type, "" if c.nullable else "not null"] for c in details.schema)
        return html_table(title, ["column", "type", ""], fields)

    def _line(self) -> dict[str, Any]:
        totals, head = self.totals(), self.log_head
        with self.context.database.read() as session:
            stored = self.context.cache(KnownTotals).stored(session, head.table_id, head.version)
        return {
            "name": self.name,
            "format": self.log_head.format,
            "guarded": self.log_head.guarded,
            "version": self.version,
            "timestamp": self.timestamp,
            "files": totals.files,
            "rows": totals.rows,
            "bytes": totals.bytes,
            "disk_bytes": stored,
            "location": self.context.storage.uri(self.log_head.location),
        }

    def _check_readable(self, session: Session) -> None:
        """Raise `VersionNotFound` if vacuum may have deleted rows of the log that were read.

        Call it after they were read: vacuum retires a version before it deletes anything of it.
        This version may have been the newest when the snapshot was made, and may be old by now.
        """
        if retired.is_retired(session, self.log_head.table_id, self.version):
            from lakeward.read.retention import check_readable

            check_readable(self.context, session, self.log_head, self.version)

    def parsed(self, where: str | None, params: Params | None = None) -> Expression | None:
        """Parse a condition on the columns of this version; raise `InvalidExpression` on errors."""
        from lakeward.model.expressions.where import parse

        text = where_text(where, params)
        return None if text is None else parse(text, self.schema)


def latest(context: LakeContext, session: Session, head: Head) -> TableSnapshot:
    """Return a table at its newest version."""
    definition = context.definition(session, head)
    return TableSnapshot(context, head, head.version, head.timestamp_ms, definition)


def at_version(context: LakeContext, session: Session, head: Head, version: int) -> TableSnapshot:
    """Return a table at a version; raise `VersionNotFound` if there is no such version."""
    found = commits.one(session, head.table_id, version)
    if found is None:
        first = commits.first_version(session, head.table_id)
        what = f"Table {head.name} has no version {version}."
        hint = f"It has versions {first} to {head.version}."
        raise VersionNotFound(what, hint=hint, table=str(head.name), version=version)
    _, definition = definitions.at(session, head.table_id, version)
    return TableSnapshot(context, head, version, found.timestamp_ms, definition)


def at_time(
    context: LakeContext, session: Session, head: Head, moment: datetime | str | int
) -> TableSnapshot:
    """Return a table at its newest version that is not later than a time, or `VersionNotFound`."""
    moment_ms = to_ms(moment)
    version = commits.version_at(session, head.table_id, moment_ms)
    if version is None:
        what = f"Table {head.name} had no version at {to_datetime(moment_ms).isoformat()}."
        hint = "It was created, or adopted, later."
        raise VersionNotFound(what, hint=hint, table=str(head.name), timestamp=moment_ms)
    return at_version(context, session, head, version)
