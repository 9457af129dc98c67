"""A lake that is read through its service."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lakeward.integrations.remote.answers import Answer
from lakeward.integrations.remote.service import Service
from lakeward.integrations.remote.snapshot import RemoteSnapshot
from lakeward.integrations.remote.table import RemoteTable
from lakeward.lake.tagging import Tag
from lakeward.lake.trail import AuditRecord
from lakeward.model import arguments
from lakeward.model.clock import to_datetime, to_ms
from lakeward.model.locks import TableLock
from lakeward.model.maintenance import JobRecord
from lakeward.model.names import TableName
from lakeward.model.parameter_values import to_json
from lakeward.model.parameters import Params
from lakeward.read.history import Stats, TransactionRecord
from lakeward.read.violations import ViolationRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.read.result import QueryResult

_MOST: Final = 1000


class RemoteLake:
    """A lake that is read through its service.

    Args:
        address: The address of the service, such as `http://127.0.0.1:8050`.
        token: An access token; None if the service needs none.
        timeout: Seconds to wait for an answer.
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 60.0) -> None:
        self._service = Service(address, token, timeout)

    def __repr__(self) -> str:
        return f"RemoteLake({self._service})"

    def about(self) -> Answer:
        """Return the caller's name and role, and the tables that the caller has access to."""
        return self._service.get("")

    def tables(self) -> list[RemoteTable]:
        """Return the tables that the caller has access to, by name."""
        found = self._service.entries("/tables", "tables")
        return [RemoteTable(self._service, t["name"]) for t in found]

    def table(self, name: str) -> RemoteTable:
        """Return the table of this name.

        Raises:
            TableNotFound: There is no such table, or the caller has no access to it.
        """
        found = RemoteTable(self._service, str(TableName.parse(name)))
        found.info()
        return found

    def snapshot(self, *, at: datetime | str | int | None = None) -> RemoteSnapshot:
        """Return all tables at one cut, now or as they were.

        Args:
            at: None for now; a tag's name; a datetime, ISO 8601 text or milliseconds; or a
                transaction's id.

        Raises:
            TransactionNotFound: `at` is no tag, no time and no committed transaction of this lake.
        """
        moment = to_datetime(to_ms(at)) if isinstance(at, int) else at
        return RemoteSnapshot(self._service, self._service.get("/snapshot", at=moment))

    def sql(self, query: str, params: Params | None = None) -> QueryResult:
        """Run a query over the tables that the caller has access to, all at one consistent cut.

        The query begins at once, and its rows are received as they are read. DataFusion runs it.

        Args:
            query: SELECT, WITH or VALUES, with tables by their names.
            params: Values for `:name` (a mapping) or `?` (a sequence); they are bound, never put
                into the text.

        Raises:
            InvalidInput: The query cannot be parsed, or a value is missing.
            UnsupportedFeature: The query would change something.
            TableNotFound: The query names a table that the lake does not have.
            VersionNotFound: The query names a version that the table does not have.
        """
        from lakeward.engines.sql.query import read_query
        from lakeward.read.result import QueryResult

        # What is wrong with the text is found here already.
        read_query(query, params)
        body = {"query": query, "params": to_json(params)}
        running = _Running(self._service, body)
        return QueryResult(running, running.close, running.close)

    def changes(
        self,
        *,
        since: datetime | str | int | None = None,
        tables: Sequence[str] | None = None,
    ) -> Iterator[Answer]:
        """Yield committed transactions in the order of their commits, with the versions they made.

        `remote.table(name).changes(since=…)` returns the rows that they changed.

        Args:
            since: A time, a tag or a transaction's id to begin with; all unless given.
            tables: Only transactions that changed one of these.
        """
        names = None if tables is None else arguments.texts(tables, "tables")
        found = self._service.entries("/changes", "transactions", since=since, table=names)
        return (Answer(one, TransactionRecord) for one in found)

    def transactions(self, *, state: str | None = None, limit: int = 100) -> list[Answer]:
        """Return the newest transactions, newest first; only those of a state, if given."""
        return self._newest("/transactions", "transactions", TransactionRecord, limit, state=state)

    def transaction_record(self, transaction_id: str) -> Answer:
        """Return a transaction by its id.

        Raises:
            TransactionNotFound: No transaction of that id was ever registered.
        """
        arguments.text(transaction_id, "transaction_id")
        found = self._service.get(f"/transactions/{quote(transaction_id, safe='')}")
        return Answer(found._body, TransactionRecord)

    def tags(self) -> list[Answer]:
        """Return the tags, ordered by the time of their cuts."""
        return [Answer(one, Tag) for one in self._service.get("/tags")._body["tags"]]

    def locks(self) -> list[Answer]:
        """Return the locked tables, the transactions that hold the locks, and those that wait."""
        return [Answer(one, TableLock) for one in self._service.get("/locks")._body["locks"]]

    def stats(self) -> Answer:
        """Return how many tables, versions and entries the log has."""
        return Answer(self._service.get("/stats")._body, Stats)

    def violations(self, *, table: str | None = None, limit: int = 100) -> list[Answer]:
        """Return violations of constraints, newest first, also those of failed transactions."""
        return self._newest("/violations", "violations", ViolationRecord, limit, table=table)

    def audit(self, *, table: str | None = None) -> Iterator[Answer]:
        """Yield the entries of the audit trail, of all tables or of one, newest first."""
        found = self._service.entries("/audit", "entries", table=table)
        return (Answer(one, AuditRecord) for one in found)

    def jobs(
        self, *, kind: str | None = None, table: str | None = None, limit: int = 100
    ) -> list[Answer]:
        """Return the newest runs of maintenance, newest first."""
        return self._newest("/jobs", "jobs", JobRecord, limit, kind=kind, table=table)

    def lineage(self) -> Answer:
        """Return which tables and columns are computed from which tables, files and columns."""
        return self._service.get("/lineage")

    def _newest(self, path: str, name: str, record: type, limit: int, **query: Any) -> list[Answer]:
        """Return the newest entries of a list that has one page, of at most 1000 entries."""
        most = arguments.whole(limit, "limit")
        found = self._service.get(path, limit=max(1, min(most, _MOST)), **query)._body[name]
        return [Answer(one, record) for one in found[:most]]


class _Running:
    """A query that the service has begun to run."""

    def __init__(self, service: Service, body: dict[str, Any]) -> None:
        self._service, self._body = service, body
        # Begun here, so that what is wrong with the query is raised here.
        self._first: pa.RecordBatchReader | None = service.query("/sql", body)

    def reader(self) -> pa.RecordBatchReader:
        """Return the rows; if they were returned before, the query runs again."""
        first, self._first = self._first, None
        return self._service.query("/sql", self._body) if first is None else first

    def close(self) -> None:
        """Stop a query whose rows nobody has asked for."""
        first, self._first = self._first, None
        if first is not None:
            first.close()
