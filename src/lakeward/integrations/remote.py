"""A client for reading a lake through its service: `lw.connect("https://…", token="lkw_…")`.

It needs nothing but the standard library and pyarrow. Answers are the JSON of the service, with
attributes; rows are Arrow. Errors of the service are raised as the errors that a lake raises.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode, urlsplit

import orjson

from lakeward import errors
from lakeward.errors import InvalidInput, LakewardError, StoreUnavailable

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

_ARROW: Final = "application/vnd.apache.arrow.stream"
_TYPE: Final = "urn:lakeward:error:"
_OK: Final = 200


class Answer(Mapping[str, Any]):
    """A JSON object of the service, whose entries are attributes, too."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        self._body = body

    def __getitem__(self, key: str) -> Any:
        return _wrapped(self._body[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._body)

    def __len__(self) -> int:
        return len(self._body)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and name in self._body:
            return self[name]
        message = f"the answer has no {name!r}; it has {', '.join(self._body)}"
        raise AttributeError(message)

    def __repr__(self) -> str:
        return f"Answer({self._body!r})"


class RemoteLake:
    """A lake that a service answers for; reading only.

    Args:
        address: The service's, such as `http://127.0.0.1:8050`.
        token: An access token; None where the service answers without one.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            what = f"{address!r} is not the address of a service."
            raise InvalidInput(what, hint="Give one such as http://127.0.0.1:8050.")
        self._parts = parts
        self._token = token
        self._timeout = timeout

    def __repr__(self) -> str:
        return f"RemoteLake({self._parts.scheme}://{self._parts.netloc})"

    def about(self) -> Answer:
        """Who the caller is for the service, and what is open to them."""
        return self._get("")

    def tables(self) -> list[RemoteTable]:
        """The tables that are open to the caller, by name."""
        return [RemoteTable(self, t["name"]) for t in self._pages("/tables", "tables")]

    def table(self, name: str) -> RemoteTable:
        """The table of this name.

        Raises:
            TableNotFound: There is none, or it is not open to the caller.
        """
        found = RemoteTable(self, name)
        found.info()
        return found

    def transactions(self, *, limit: int = 100) -> list[Answer]:
        """The newest transactions, newest first."""
        return list(self._get("/transactions", limit=limit).transactions)

    def tags(self) -> list[Answer]:
        """The tags, by the time of their cuts."""
        return list(self._get("/tags").tags)

    def audit(self, *, table: str | None = None) -> Iterator[Answer]:
        """Who did what to the tables, newest first."""
        return self._pages("/audit", "entries", table=table)

    def jobs(self, *, limit: int = 100) -> list[Answer]:
        """The runs of maintenance, newest first."""
        return list(self._get("/jobs", limit=limit).jobs)

    def lineage(self) -> Answer:
        """Which tables, files and columns others come from."""
        return self._get("/lineage")

    def _get(self, path: str, **query: Any) -> Answer:
        with self._asked(path, "application/json", query) as body:
            return Answer(orjson.loads(body.read()))

    def _pages(self, path: str, name: str, **query: Any) -> Iterator[Answer]:
        """The entries of a list, page by page."""
        cursor = None
        while True:
            page = self._get(path, **query, cursor=cursor)
            yield from page[name]
            cursor = page["next"]
            if cursor is None:
                return

    @contextmanager
    def _asked(self, path: str, accept: str, query: Mapping[str, Any]) -> Iterator[IO[bytes]]:
        """The body of an answer; the errors of the service are raised."""
        given = {k: v for k, v in query.items() if v is not None}
        target = f"{self._parts.path.rstrip('/')}/api/v1{path}"
        if given:
            target += f"?{urlencode(given, doseq=True)}"
        headers = {"Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            try:
                connection.request("GET", target, headers=headers)
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                what = f"The service at {self._parts.netloc} does not answer: {error}."
                raise StoreUnavailable(what, hint="Is `lakeward serve` running there?") from error
            if answer.status != _OK:
                raise _error(answer.status, answer.read())
            yield answer
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        # No library that follows redirects, which would show the token to another host.
        host = str(self._parts.hostname)
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, self._parts.port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            host, self._parts.port, timeout=self._timeout, context=ssl.create_default_context()
        )


class RemoteTable:
    """A table of a remote lake, now or at an earlier version.

    Args:
        lake: The lake.
        name: The table's name.
        at: Which version: `version`, `timestamp`, `tag` or `transaction`; now if empty.
    """

    def __init__(self, lake: RemoteLake, name: str, at: Mapping[str, Any] | None = None) -> None:
        self._lake = lake
        self._at = dict(at or {})
        self.name = name

    def __repr__(self) -> str:
        return f"RemoteTable({self.name!r}{''.join(f', {k}={v!r}' for k, v in self._at.items())})"

    def info(self) -> Answer:
        """Columns, checks, properties, version and size."""
        return self._get("", **self._at)

    @property
    def version(self) -> int:
        """The version."""
        return int(self.info().version)

    @property
    def format(self) -> str:
        """`delta` or `iceberg`."""
        return str(self.info().format)

    @property
    def schema(self) -> pa.Schema:
        """The columns, as Arrow has them."""
        with self._rows(None, None) as reader:
            return reader.schema

    def at(
        self,
        *,
        version: int | None = None,
        timestamp: Any = None,
        tag: str | None = None,
        transaction: str | None = None,
    ) -> RemoteTable:
        """The table at a version, a moment, a tag, or after a transaction."""
        moment = timestamp.isoformat() if hasattr(timestamp, "isoformat") else timestamp
        given = {"version": version, "timestamp": moment, "tag": tag, "transaction": transaction}
        chosen = {name: value for name, value in given.items() if value is not None}
        found = RemoteTable(self._lake, self.name, chosen)
        found.info()
        return found

    def history(self, *, limit: int | None = None) -> list[Answer]:
        """The versions, newest first."""
        if limit is None:
            return list(self._lake._pages(f"{self._path}/history", "versions"))
        return list(self._get("/history", limit=limit).versions)

    def files(self, *, where: str | None = None) -> list[Answer]:
        """The files, or those of them that may hold a matching row."""
        return list(self._lake._pages(f"{self._path}/files", "files", where=where, **self._at))

    def diff(self, before: int, after: int, *, rows: bool = False) -> Answer:
        """What changed between two versions."""
        return self._get("/diff", **{"from": before, "to": after, "rows": str(rows).lower()})

    def schemas(self) -> list[Answer]:
        """The schemas that the table had, oldest first."""
        return list(self._get("/schemas").schemas)

    def health(self) -> Answer:
        """The score of the layout of its files, with reasons."""
        return self._get("/health")

    def lineage(self, *, direction: str = "upstream", column: str | None = None) -> Answer:
        """What the table comes from, or what comes from it."""
        return self._get("/lineage", direction=direction, column=column)

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """All rows, or those that match a condition."""
        with self._rows(columns, where) as reader:
            return reader.read_all()

    def to_batches(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The same, batch by batch as they arrive."""
        with self._rows(columns, where) as reader:
            yield from reader

    def to_pandas(self, **wanted: Any) -> pd.DataFrame:
        """The same as a frame of pandas."""
        return self.to_arrow(**wanted).to_pandas()

    def to_polars(self, **wanted: Any) -> pl.DataFrame:
        """The same as a frame of Polars."""
        import polars as pl

        found = pl.from_arrow(self.to_arrow(**wanted))
        assert isinstance(found, pl.DataFrame)  # noqa: S101  as it is of a table
        return found

    def count(self, where: str | None = None) -> int:
        """How many rows there are, or match a condition."""
        columns = [self.info().schema[0].name]
        return sum(batch.num_rows for batch in self.to_batches(columns=columns, where=where))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    @property
    def _path(self) -> str:
        return f"/tables/{quote(self.name, safe='')}"

    def _get(self, path: str, **query: Any) -> Answer:
        return self._lake._get(f"{self._path}{path}", **query)

    @contextmanager
    def _rows(
        self, columns: Sequence[str] | None, where: str | None
    ) -> Iterator[pa.RecordBatchReader]:
        import pyarrow as pa

        query = {"columns": columns, "where": where, **self._at}
        with self._lake._asked(f"{self._path}/rows", _ARROW, query) as body:
            try:
                yield pa.ipc.open_stream(body)
            except (pa.ArrowException, OSError, http.client.HTTPException) as error:
                what = f"The rows of table {self.name} did not arrive whole."
                raise StoreUnavailable(what, hint="Read them again.") from error


def _wrapped(value: Any) -> Any:
    match value:
        case dict():
            return Answer(value)
        case list():
            return [_wrapped(one) for one in value]
        case _:
            return value


def _error(status: int, body: bytes) -> LakewardError:
    """The error of the tree that problem details name."""
    try:
        problem = orjson.loads(body)
        kind = str(problem["type"]).removeprefix(_TYPE)
        what, facts = str(problem["detail"]), dict(problem.get("facts") or {})
    except (ValueError, KeyError, TypeError):
        return StoreUnavailable(f"The service answered with status {status}.")
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, LakewardError)):
        found = LakewardError
    hint = problem.get("hint")
    return found(what, hint=hint, **{k: v for k, v in facts.items() if k not in ("what", "hint")})
