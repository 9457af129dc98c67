"""Requests to a service: JSON objects, lists page by page, and streams of rows."""

from __future__ import annotations

import http.client
import re
import ssl
import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import SplitResult, urlencode, urlsplit

import orjson

from lakeward import errors
from lakeward.errors import InvalidInput, LakewardError, StoreUnavailable
from lakeward.integrations.remote.answers import Answer

if TYPE_CHECKING:
    import pyarrow as pa

_ARROW: Final = "application/vnd.apache.arrow.stream"
_JSON: Final = "application/json"
_TYPE: Final = "urn:lakeward:error:"
_OK: Final = 200
_ACCEPTED: Final = 202
_PAUSE_SECONDS: Final = 1.0
_TOKEN: Final = re.compile("[!-~]+")
"""The characters of a token: every one that a header can carry."""
_PAGE: Final = 1000
"""The most entries that the service returns as one page."""


class Service:
    """A service, and the token that it is asked with.

    Args:
        address: The address of the service, such as `http://127.0.0.1:8050`.
        token: An access token; None if the service needs none.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, address: str, token: str | None, timeout: float) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            what = f"{address!r} is not the address of a service."
            raise InvalidInput(what, hint="Give one such as http://127.0.0.1:8050.")
        self._parts: SplitResult = parts
        self._token = _checked(token)
        self._timeout = timeout

    def __str__(self) -> str:
        return f"{self._parts.scheme}://{self._parts.netloc}"

    def get(self, path: str, **query: Any) -> Answer:
        """Return an object; if the service is still computing it, wait and ask again."""
        until = time.monotonic() + self._timeout
        while True:
            with self._asked("GET", path, _JSON, query) as answer:
                if answer.status == _OK:
                    return Answer(orjson.loads(answer.read()))
            if time.monotonic() > until:
                what = f"The service at {self._parts.netloc} is still computing {path}."
                raise StoreUnavailable(what, hint="Ask again later.")
            time.sleep(_PAUSE_SECONDS)

    def entries(
        self, path: str, name: str, *, limit: int | None = None, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """Yield the entries of a list, which is requested page by page; at most `limit`."""
        return islice(self._pages(path, name, _PAGE if limit is None else limit, query), limit)

    def rows(self, path: str, **query: Any) -> pa.RecordBatchReader:
        """Return a stream of rows; it is received as it is read."""
        return _rows(self._asked("GET", path, _ARROW, query))

    def query(self, path: str, body: Mapping[str, Any]) -> pa.RecordBatchReader:
        """Return the rows of a query as a stream; it is received as it is read."""
        return _rows(self._asked("POST", path, _ARROW, {}, body))

    def _pages(
        self, path: str, name: str, limit: int, query: Mapping[str, Any]
    ) -> Iterator[dict[str, Any]]:
        cursor = None
        size = max(1, min(limit, _PAGE))
        while True:
            page = self.get(path, **query, limit=size, cursor=cursor)._body
            yield from page[name]
            cursor = page["next"]
            if cursor is None:
                return

    def _asked(
        self,
        method: str,
        path: str,
        accept: str,
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
    ) -> _Received:
        """Send a request; return its response, or raise the error of the service."""
        given = {k: _text(v) for k, v in query.items() if v is not None}
        target = f"{self._parts.path.rstrip('/')}/api/v1{path}"
        if given:
            target += f"?{urlencode(given, doseq=True)}"
        headers = {"Accept": accept}
        if body is not None:
            headers["Content-Type"] = _JSON
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connection()
        try:
            try:
                sent = None if body is None else orjson.dumps(body)
                connection.request(method, target, sent, headers=headers)
                answer = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                what = f"The service at {self._parts.netloc} does not answer: {error}."
                raise StoreUnavailable(what, hint="Is `lakeward serve` running there?") from error
            if answer.status not in (_OK, _ACCEPTED):
                raise _error(answer.status, answer.read())
        except BaseException:
            connection.close()
            raise
        return _Received(connection, answer)

    def _connection(self) -> http.client.HTTPConnection:
        # No library that follows redirects, which would show the token to another host.
        host = str(self._parts.hostname)
        if self._parts.scheme == "http":
            return http.client.HTTPConnection(host, self._parts.port, timeout=self._timeout)
        return http.client.HTTPSConnection(
            host, self._parts.port, timeout=self._timeout, context=ssl.create_default_context()
        )


class _Received:
    """A response that is being received; its connection is closed with it."""

    closed = False

    def __init__(
        self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse
    ) -> None:
        self._connection = connection
        self._answer = answer
        self.status = answer.status

    def read(self, size: int | None = None) -> bytes:
        """Return the next bytes, all that remain unless a size is given."""
        return self._answer.read(size)

    def readable(self) -> bool:
        """Return True, as Arrow requires."""
        return True

    def close(self) -> None:
        """Close the connection."""
        self._answer.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


def _checked(token: object) -> str | None:
    """Return a token that a header can carry; the error for others does not show it."""
    if token is None or (isinstance(token, str) and _TOKEN.fullmatch(token)):
        return token
    what = "`token` must be visible ASCII characters without spaces and line breaks."
    hint = "Give the token as `lakeward token create` printed it, without the line's end."
    raise InvalidInput(what, hint=hint, parameter="token")


def _rows(received: _Received) -> pa.RecordBatchReader:
    import pyarrow as pa

    broken = (pa.ArrowException, OSError, http.client.HTTPException)

    def batches() -> Iterator[pa.RecordBatch]:
        with received:
            try:
                yield from reader
            except broken as error:
                raise _incomplete() from error

    try:
        reader = pa.ipc.open_stream(received)
    except broken as error:
        received.close()
        raise _incomplete() from error
    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _incomplete() -> StoreUnavailable:
    what = "The rows did not arrive whole."
    return StoreUnavailable(what, hint="Read them again.")


def _text(value: Any) -> Any:
    """Return a value of a query as the service takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if hasattr(value, "isoformat") else value


def _error(status: int, body: bytes) -> LakewardError:
    """Return the Lakeward error that problem details describe."""
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
