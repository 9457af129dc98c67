"""A table of a remote lake, now or at a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from lakeward.errors import InvalidInput
from lakeward.integrations.remote.answers import Answer, Difference
from lakeward.log.audit import AuditEntry
from lakeward.model import arguments
from lakeward.model.constraints import Constraint, declared
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, LoggedFile
from lakeward.model.health import Health
from lakeward.model.parameter_values import to_texts
from lakeward.model.parameters import Params, where_text
from lakeward.model.schema import Schema
from lakeward.read.describe import TableDetails, Totals
from lakeward.read.diff import Diff
from lakeward.read.history import Version
from lakeward.read.moments import no_point
from lakeward.read.readable import Readable
from lakeward.read.retention import Retention
from lakeward.read.schemas import SchemaVersion

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.integrations.remote.service import Service


class RemoteTable(Readable):
    """A table of a remote lake, now or at an earlier version.

    Args:
        service: The service.
        name: The table's name; for a table of a cut, the name that it had then.
        at: The version; None for the newest, whichever that is when the table is read.
        name_now: The name by which the service finds the table, if it was renamed since.
        table_id: The table's id in the log; another table of this name is not read. None for any.
    """

    def __init__(
        self,
        service: Service,
        name: str,
        at: int | None = None,
        name_now: str | None = None,
        table_id: int | None = None,
    ) -> None:
        self._service = service
        self._at = at
        self._name_now = name_now or name
        self._of: dict[str, Any] = {"version": at, "table_id": table_id}
        self.name = name

    def __repr__(self) -> str:
        version = "" if self._at is None else f", version={self._at}"
        return f"RemoteTable({self.name!r}{version})"

    def info(self) -> Answer:
        """Return the table's columns, checks, properties, version and size."""
        return Answer(self._get("", **self._of)._body, TableDetails)

    @property
    def version(self) -> int:
        """The version that is read."""
        return int(self.info().version) if self._at is None else self._at

    @property
    def timestamp(self) -> datetime:
        """When the version was committed."""
        found: datetime = self.info().timestamp
        return found

    @property
    def format(self) -> str:
        """`delta` or `iceberg`."""
        return str(self.info().format)

    @property
    def guarded(self) -> bool:
        """Whether the table has the guard, which keeps out writers other than Lakeward."""
        return bool(self.info().guarded)

    @property
    def uuid(self) -> str:
        """The table's id, which stays the same if the table is renamed."""
        return str(self.info().uuid)

    @property
    def metadata_location(self) -> str | None:
        """The newest metadata document of an Iceberg table, in the warehouse; None for Delta."""
        found: str | None = self.info().metadata_location
        return found

    @property
    def snapshot_id(self) -> int | None:
        """The id of the version's Iceberg snapshot; None if it has none."""
        found: int | None = self.info().snapshot_id
        return found

    @property
    def definition(self) -> Definition:
        """Schema, partitioning, properties, constraints and protocol of the version."""
        return Definition.from_json(dict(self._get("/definition", **self._of)._body))

    @property
    def schema(self) -> Schema:
        """The columns; `schema.to_arrow()` has them as an Arrow schema."""
        return self.definition.schema

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
        """What the table is partitioned by: `day(ts)`, `region`."""
        return self.definition.partitioning

    def at(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        transaction: str | None = None,
    ) -> RemoteTable:
        """Return the table at a version, time, tag or transaction; by default as it is now.

        Raises:
            VersionNotFound: The table has no such version, or did not exist at that time.
            NotFound: The lake has no such tag.
            TransactionNotFound: No such transaction was committed.
        """
        if version is not None:
            arguments.whole(version, "version", least=-LIVE)
        found = self._get(
            "", version=version, timestamp=timestamp, tag=tag, transaction=transaction
        )
        return RemoteTable(self._service, self.name, int(found.version), self._name_now)

    def history(
        self, *, limit: int | None = None, since: int | None = None, until: int | None = None
    ) -> list[Answer]:
        """Return the versions, newest first.

        Args:
            limit: How many to return at most.
            since: The oldest version to return.
            until: The newest version to return.
        """
        most = None if limit is None else arguments.whole(limit, "limit")
        for value, parameter in ((since, "since"), (until, "until")):
            if value is not None:
                arguments.whole(value, parameter, least=-LIVE)
        path = f"{self._path}/history"
        found = self._service.entries(path, "versions", limit=most, since=since, until=until)
        return [Answer(one, Version) for one in found]

    def versions(
        self, *, since: datetime | str | None = None, until: datetime | str | None = None
    ) -> list[Answer]:
        """Return the versions that were committed in a time range, oldest first."""
        found = self._get("/versions", since=since, until=until)._body["versions"]
        return [Answer(one, Version) for one in found]

    def files(self, *, where: str | None = None, params: Params | None = None) -> list[LoggedFile]:
        """Return the files, or those that may have a row that matches a condition."""
        asked = {**_condition(where, params), **self._of}
        found = self._service.entries(f"{self._path}/files", "files", **asked)
        return [_file(one) for one in found]

    def totals(self) -> Totals:
        """Return the number of files, bytes and rows of the version."""
        found = self.info()
        return Totals(found.files, found.bytes, found.rows)

    def diff(
        self,
        a: int,
        b: int,
        *,
        rows: bool = False,
        key: str | Sequence[str] | None = None,
        sample: int = 20,
    ) -> Difference:
        """Compare version `a` with version `b`: files, columns, properties, statistics.

        Args:
            a: A version.
            b: Another version, older or newer.
            rows: Compare rows too.
            key: With `rows`, columns that identify a row.
            sample: How many inserted, deleted and changed rows to show at most.

        Raises:
            VersionNotFound: There is no such version.
            InvalidInput: A column of the key does not exist.
        """
        for value, parameter in ((a, "a"), (b, "b")):
            arguments.whole(value, parameter, least=-LIVE)
        asked = {"from": a, "to": b, "rows": arguments.flag(rows, "rows")}
        found = self._get(
            "/diff", **asked, key=_listed(key), sample=arguments.whole(sample, "sample")
        )
        return Difference(found._body, Diff)

    def changes(
        self,
        *,
        since: int | str | datetime,
        until: int | str | datetime | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        key: str | Sequence[str] | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows that a range of versions changed, as a stream of record batches.

        Args:
            since: The first version, a time, a transaction's id, or a tag.
            until: The last version, given in the same ways; None for the newest.
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; changed rows for which it is true are returned.
            params: Values for `:name`, by name, or for `?`, in order.
            key: Columns that identify a row.
        """
        for place in (since, *(() if until is None else (until,))):
            if isinstance(place, bool) or not isinstance(place, int | str | datetime):
                raise no_point(place)
        asked, besides = self._asked(columns)
        found = self._service.rows(
            f"{self._path}/changes",
            since=since,
            until=until,
            columns=asked,
            key=_listed(key),
            **_condition(where, params),
        )
        return _without(found, besides) if besides else found

    def schemas(self) -> list[Answer]:
        """Return the schemas that the table had, oldest first."""
        return [Answer(one, SchemaVersion) for one in self._get("/schemas")._body["schemas"]]

    def audit(self) -> Iterator[Answer]:
        """Yield the entries of the table's audit trail, oldest first."""
        found = list(self._service.entries(f"{self._path}/audit", "entries"))
        return (Answer(one, AuditEntry) for one in reversed(found))

    def health(self) -> Answer:
        """Return the score of the layout of the table's files, with reasons."""
        return Answer(self._get("/health")._body, Health)

    def retention(self) -> Answer:
        """Return how far back the table can be read: promised versions, and all readable ones."""
        return Answer(self._get("/retention")._body, Retention)

    def lineage(self, *, direction: str = "upstream", column: str | None = None) -> Answer:
        """Return where the table's rows come from, or with `downstream` which tables use them."""
        return self._get("/lineage", direction=direction, column=column)

    def to_reader(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
    ) -> pa.RecordBatchReader:
        """Return the rows as a stream of record batches, which are received as they are read.

        Args:
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        asked, besides = self._asked(columns)
        options = {"columns": asked, **_condition(where, params)}
        found = self._service.rows(f"{self._path}/rows", **options, **self._of)
        return _without(found, besides) if besides else found

    def to_batches(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield all rows, or those that match a condition, as record batches as they arrive."""
        with self.to_reader(columns=columns, where=where) as reader:
            yield from reader

    def count(self, where: str | None = None, *, params: Params | None = None) -> int:
        """Return the number of rows, or of those that satisfy a condition.

        Args:
            where: A SQL boolean expression; rows for which it is true are counted.
            params: Values for `:name`, by name, or for `?`, in order.
        """
        return int(self._get("/count", **_condition(where, params), **self._of).count)

    def _asked(self, columns: Sequence[str] | None) -> tuple[list[str] | None, list[str]]:
        """Return the columns to ask the service for, and those that are not wanted of them.

        Asked for no column, the service returns all.
        """
        if columns is None:
            return None, []
        wanted = arguments.texts(columns, "columns")
        besides = [] if wanted else self.schema.names[:1]
        return wanted or besides, besides

    @property
    def _path(self) -> str:
        return f"/tables/{quote(self._name_now, safe='')}"

    def _get(self, path: str, **query: Any) -> Answer:
        return self._service.get(f"{self._path}{path}", **query)


def _condition(where: str | None, params: Params | None) -> dict[str, Any]:
    """Return a condition and its values as the service takes them: only those with names."""
    if isinstance(params, Mapping):
        return {"where": where, "param": to_texts(params)}
    return {"where": where_text(where, params)}


def _file(source: dict[str, Any]) -> LoggedFile:
    """Return a file as the log has it, without its statistics."""
    deleted = source["deleted_rows"]
    file = DataFile(
        source["path"],
        source["bytes"],
        source["rows"],
        source["modified_ms"],
        {int(key): value for key, value in source["partition"].items()},
        deletion_vector=None if deleted == 0 else {"cardinality": deleted},
    )
    return LoggedFile(file, source["added"], source["ordinal"])


def _without(reader: pa.RecordBatchReader, names: list[str]) -> pa.RecordBatchReader:
    """Return rows without some columns."""
    import pyarrow as pa

    kept = [field for field in reader.schema if field.name not in names]
    chosen = [field.name for field in kept]
    return pa.RecordBatchReader.from_batches(pa.schema(kept), (b.select(chosen) for b in reader))


def _listed(names: str | Sequence[str] | None) -> list[str] | None:
    """Return the columns of a key, as the service takes them."""
    if names is None:
        return None
    found = [names] if isinstance(names, str) else arguments.texts(names, "key")
    if not found:
        what = "`key` names no column."
        raise InvalidInput(what, hint="Leave it out, or name one.", parameter="key")
    return found
