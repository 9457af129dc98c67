"""Changed rows of a table as frames and streams of Spark.

Both have the rows of `table.changes`. The processes of Spark that read them open the lake
themselves, so each machine that runs tasks needs Lakeward and must reach the store and the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from lakeward.engines.spark.changes_source import Source
from lakeward.engines.spark.extra import check
from lakeward.errors import InvalidInput, VersionNotFound
from lakeward.lake.addresses import Address, kept_open, opened_at
from lakeward.log import commits, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.read import changes
from lakeward.read.snapshot import TableSnapshot, at_version, latest
from lakeward.read.widest import in_widest_types
from lakeward.write.commit.publications import current

if TYPE_CHECKING:
    from lakeward.engines.spark.session import SparkSession
    from lakeward.lake.lake import Lake

_SPEC: Final = "changes"
"""The name of the option that has the `_Spec` as JSON."""


@dataclass(frozen=True, slots=True)
class _Spec:
    """Which changes are read, and in which columns.

    Attributes:
        table: The table's name.
        uuid: The table's id; another table of the same name is not read.
        first: The first version; columns have the widest types from it to `shown`.
        shown: The version whose columns the rows have.
        columns: The names of the columns to read; all when None.
        where: A condition on the rows.
        key: Columns that identify a row.
    """

    table: str
    uuid: str
    first: int
    shown: int
    columns: list[str] | None
    where: str | None
    key: list[str] | None


@dataclass(frozen=True, slots=True)
class _Versions:
    """Opens the lake in any process, and reads changes of a table."""

    address: Address
    spec: _Spec

    @property
    def table_id(self) -> str:
        """The table's id."""
        return self.spec.uuid

    def newest(self) -> int:
        """Return the newest version; adopt foreign commits first if this user may write."""
        context = kept_open(self.address)
        return self._checked(current(context, TableName.parse(self.spec.table))).version

    def check(self, until: int) -> None:
        """Raise `InvalidInput` if the columns have changed after the version that is shown."""
        if until <= self.spec.shown:
            return
        with opened_at(self.address) as context:
            with context.database.read() as session:
                head = self._head(session)
                versions = self.spec.shown, until
                found = [at_version(context, session, head, v) for v in versions]
            shown, last = (in_widest_types(one, self.spec.first) for one in found)
        if _columns(shown, self.spec.columns) != _columns(last, self.spec.columns):
            span = f"versions {shown.version} and {until}"
            what = f"Columns of {self.spec.table} changed between {span}, while it was streamed."
            hint = "Call read_stream again and start from the same checkpoint; no change is lost."
            raise InvalidInput(what, hint=hint, table=self.spec.table)

    def batches(self, since: int, until: int) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the versions from `since` to `until`."""
        spec = self.spec
        with opened_at(self.address) as context:
            with context.database.read() as session:
                shown = at_version(context, session, self._head(session), spec.shown)
            shown = in_widest_types(shown, spec.first)
            yield from changes.read_changes(
                shown, since, last=until, columns=spec.columns, where=spec.where, key=spec.key
            )

    def close(self) -> None:
        """Close the lake that `newest` keeps open in this process."""
        kept_open(self.address).database.close()
        kept_open.cache_clear()

    def _head(self, session: Session) -> Head:
        return self._checked(heads.get(session, TableName.parse(self.spec.table)))

    def _checked(self, head: Head) -> Head:
        if head.uuid != self.spec.uuid:
            what = f"Table {self.spec.table} was dropped, and another one was made."
            hint = "Start the query again, with a new checkpoint."
            raise InvalidInput(what, hint=hint, table=self.spec.table)
        return head


def changes_frame(
    lake: Lake,
    spark: SparkSession,
    name: str,
    *,
    since: int | str | datetime,
    until: int | str | datetime | None,
    columns: Sequence[str] | None,
    where: str | None,
    key: str | Sequence[str] | None,
) -> Any:
    """Return the changes of a range of versions as a frame; see `lakeward.spark.read_changes`."""
    check(spark)
    context = lake._context
    head = current(context, TableName.parse(name))
    with context.database.read() as session:
        first = changes.first_version(session, head, since)
        last = changes.last_version(session, head, until)
        changes.check_range(head, first, last)
        shown = at_version(context, session, head, last)
    schema, options = _described(shown, first, columns, where, key)
    return _source(lake).frame(spark, schema, options, (first, last))


def changes_stream(
    lake: Lake,
    spark: SparkSession,
    name: str,
    *,
    since: int | str | datetime | None,
    columns: Sequence[str] | None,
    where: str | None,
    key: str | Sequence[str] | None,
) -> Any:
    """Return the changes from a version on as a stream; see `lakeward.spark.read_stream`."""
    check(spark)
    context = lake._context
    head = current(context, TableName.parse(name))
    with context.database.read() as session:
        first = _first(session, head, since)
        shown = latest(context, session, head)
    schema, options = _described(shown, first, columns, where, key)
    return _source(lake).stream(spark, schema, options, first)


def _first(session: Session, head: Head, since: int | str | datetime | None) -> int:
    """Return the first version of a stream, which may be the version after the newest one."""
    if since is None:
        return commits.first_version(session, head.table_id) or 0
    try:
        return changes.first_version(session, head, since)
    except VersionNotFound as error:
        following = head.version + 1
        if error.facts.get("version") == following or "timestamp" in error.facts:
            return following
        raise


def _described(
    shown: TableSnapshot,
    first: int,
    columns: Sequence[str] | None,
    where: str | None,
    key: str | Sequence[str] | None,
) -> tuple[pa.Schema, dict[str, str]]:
    """Check the arguments; return the schema of the rows, and the options of the source."""
    shown = in_widest_types(shown, first)
    schema = changes.schema_of(shown, columns, key)
    shown.parsed(where)
    names, keys = changes.checked_names(shown, columns, key)
    spec = _Spec(
        shown.name,
        shown.log_head.uuid,
        first,
        shown.version,
        None if columns is None else names,
        where,
        keys or None,
    )
    return schema, {_SPEC: orjson.dumps(spec).decode()}


def _columns(shown: TableSnapshot, columns: Sequence[str] | None) -> list[Any]:
    """Return id, name and type of each column; None for a column that the version lacks."""
    known = shown.schema
    names = known.names if columns is None else columns
    found = (known.by_name.get(n) for n in names)
    return [None if f is None else (f.id, f.name, f.type) for f in found]


def _source(lake: Lake) -> Source:
    """Return the source of this lake's changes, named by a hash of the lake's address."""
    address = lake._address
    known = orjson.dumps([address.target, address.warehouse, address.storage_options])
    name = f"lakeward_changes_{sha256(known).hexdigest()[:16]}"
    return Source(name, partial(_versions, address))


def _versions(address: Address, options: Mapping[str, str]) -> _Versions:
    return _Versions(address, _Spec(**orjson.loads(options[_SPEC])))
