"""Snapshots: a table at a version, and several tables at one consistent cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lakeward.context import LakeContext
from lakeward.errors import VersionNotFound
from lakeward.formats.registry import format_of
from lakeward.log import commits, definitions, files
from lakeward.log.database import Session
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.shown import html_table
from lakeward.read.describe import Page, PageColumn, TableDetails, TableInfo, columns_of, pages_of
from lakeward.read.readable import Readable

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.model.expressions.nodes import Expression

_COLUMNS: Final = 8
"""Columns that a line shows."""
_PAGE_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Totals:
    """Files, bytes and rows of a version; rows only if every file has a count."""

    files: int
    bytes: int
    rows: int | None


@dataclass(frozen=True, repr=False)
class TableSnapshot(Readable):
    """A table at one version; it never changes."""

    _internal: ClassVar = frozenset({"context", "log_head", "plan", "timestamp_ms"})

    context: LakeContext
    log_head: Head
    version: int
    timestamp_ms: int
    definition: Definition

    @property
    def name(self) -> str:
        """The table's full name."""
        return str(self.log_head.name)

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        return to_datetime(self.timestamp_ms)

    @property
    def schema(self) -> Schema:
        """The columns at that version."""
        return self.definition.schema

    @property
    def snapshot_id(self) -> int | None:
        """The Iceberg snapshot that other engines know this version by, where there is one."""
        return format_of(self.log_head).snapshot_id(self.context, self.log_head, self.version)

    @property
    def metadata_location(self) -> str | None:
        """The Iceberg metadata document by which other engines open the table, if it is one.

        It is the newest one, and knows the snapshots of older versions too.
        """
        return self.log_head.pointer

    def files(self, *, where: str | None = None) -> list[LoggedFile]:
        """The files of the version, or those of them that may hold a matching row.

        Args:
            where: A SQL boolean expression over the table's columns.
        """
        return self.plan(self._parsed(where))

    def to_reader(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.RecordBatchReader:
        """The rows as a stream of record batches, for more than memory holds.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        from lakeward.read.scan import check_columns, read_files

        check_columns(columns, self.definition, self.name)
        expression = self._parsed(where)
        found = self.plan(expression)
        return read_files(
            self.context.storage,
            self.log_head,
            self.definition,
            found,
            columns=columns,
            where=expression,
        )

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or how many of them satisfy a condition.

        The log answers where it can; only files that it cannot answer for are read.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
        """
        from lakeward.model.expressions.nodes import columns as columns_in
        from lakeward.read.plan import file_always_matches
        from lakeward.read.scan import read_files

        if where is None:
            known = self.totals().rows
            if known is not None:
                return known

        condition, counted = self._parsed(where), 0
        unsure: list[LoggedFile] = []
        for file in self.plan(condition):
            rows = file.file.live_rows
            if rows is None or not (condition is None or file_always_matches(condition, file.file)):
                unsure.append(file)
            else:
                counted += rows
        if not unsure:
            return counted
        used = set() if condition is None else columns_in(condition)
        column = next((f.name for f in self.schema.fields if f.id in used), self.schema.names[0])
        with read_files(
            self.context.storage,
            self.log_head,
            self.definition,
            unsure,
            columns=[column],
            where=condition,
        ) as reader:
            return counted + sum(batch.num_rows for batch in reader)

    def plan(self, where: Expression | None = None) -> list[LoggedFile]:
        """The files to read for an expression bound to this snapshot's schema, oldest first."""
        from lakeward.read.plan import plan, to_prune_by

        condition = to_prune_by(where, self.definition)
        with self.context.database.read() as session:
            found = list(plan(session, self.log_head.table_id, self.version, condition))
        return sorted(found, key=lambda f: (f.added, f.ordinal))

    def totals(self) -> Totals:
        """Files, bytes and rows of the version."""
        with self.context.database.read() as session:
            return Totals(*files.totals(session, self.log_head.table_id, self.version))

    def info(self) -> TableInfo:
        """The version in a line: format, size, location."""
        return TableInfo(**self._line())

    def details(self) -> TableDetails:
        """The version with its columns, checks, properties and protocol."""
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
        offset: int = 0,
        limit: int = 20,
    ) -> Page:
        """Some rows, as a record that can be shown.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            offset: How many rows to leave out.
            limit: How many rows to read at most.
        """
        return next(self.pages(columns=columns, where=where, offset=offset, limit=limit))

    def pages(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        offset: int = 0,
        limit: int | None = None,
        size: int | None = None,
    ) -> Iterator[Page]:
        """The rows page by page, for more than memory holds; at least one page.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            offset: How many rows to leave out.
            limit: How many rows to read at most; all when None.
            size: How many rows a page has; as many as `limit` when None.
        """
        reader = self.to_reader(columns=columns, where=where)
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
        title = f"{self.name}, version {self.version} ({details.format}, {_rows(details.rows)})"
        fields = ([c.name, c.type, "" if c.nullable else "not null"] for c in details.schema)
        return html_table(title, ["column", "type", ""], fields)

    def _line(self) -> dict[str, Any]:
        totals = self.totals()
        with self.context.database.read() as session:
            stored = files.stored(session, self.log_head.table_id)
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

    def _parsed(self, where: str | None) -> Expression | None:
        from lakeward.model.expressions.where import parse

        return None if where is None else parse(where, self.schema)


def columns_line(schema: Schema) -> str:
    """The columns on a line, the first ones of many."""
    shown = [f"{f.name} {f.type}" for f in schema.fields[:_COLUMNS]]
    more = [f"and {len(schema.fields) - _COLUMNS} more"] if len(schema.fields) > _COLUMNS else []
    return ", ".join([*shown, *more])


def _rows(count: int | None) -> str:
    return "rows not counted" if count is None else f"{count:,} rows"


def latest(context: LakeContext, session: Session, head: Head) -> TableSnapshot:
    """A table at its newest version."""
    definition = context.definition(session, head)
    return TableSnapshot(context, head, head.version, head.timestamp_ms, definition)


def at_version(context: LakeContext, session: Session, head: Head, version: int) -> TableSnapshot:
    """A table at a version. Raises `VersionNotFound`."""
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
    """A table at its newest version that is not later than a moment. Raises `VersionNotFound`."""
    moment_ms = to_ms(moment)
    version = commits.version_at(session, head.table_id, moment_ms)
    if version is None:
        what = f"Table {head.name} had no version at {to_datetime(moment_ms).isoformat()}."
        hint = "It was created, or adopted, later."
        raise VersionNotFound(what, hint=hint, table=str(head.name), timestamp=moment_ms)
    return at_version(context, session, head, version)
