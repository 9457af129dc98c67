"""Runs SQL over the tables of a lake, at one pinned cut, on a chosen engine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from lakeward.context import LakeContext
from lakeward.errors import LakewardError, TableNotFound
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.log import heads, pins
from lakeward.model.commit import new_transaction_id
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.read import snapshot as snapshots
from lakeward.read.auditing import audit_read
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.registration import LeaseKeeper

if TYPE_CHECKING:
    from lakeward.engines.sql.query import TableRef
    from lakeward.lake.table import Table
    from lakeward.model.parameters import Params
    from lakeward.read.result import QueryResult

_LOG: Final = logging.getLogger(__name__)
_Named = TypeVar("_Named")


class Querying:
    """The methods of a lake that run SQL."""

    _context: LakeContext
    _keeper: LeaseKeeper
    table: Callable[[str], Table]

    def sql(
        self, query: str, params: Params | None = None, *, engine: str = "datafusion"
    ) -> QueryResult:
        """Run a query over tables of both formats, all at one consistent cut.

        Files that the log rules out by the query's conditions are not read. A table may be read at
        another version: `FROM sales.orders VERSION AS OF 3`, or `TIMESTAMP AS OF '2026-01-31'`.

        Args:
            query: SELECT, WITH or VALUES, in the engine's SQL, with tables by their names.
            params: Values for `:name` (a mapping) or `?` (a sequence); they are bound, never put
                into the text. A list is expanded to its values: `id IN (:ids)`.
            engine: `datafusion`, from the extra of that name, or `duckdb`, if it is installed.

        Raises:
            InvalidInput: The query cannot be parsed, or a value is missing.
            UnsupportedFeature: The query would change something: use `tx.sql`.
            TableNotFound: The query names a table that the lake does not have.
            VersionNotFound: The query names a version that the table does not have.
            MissingExtra: The engine is not installed.
        """
        from lakeward.engines.sql.engines import session_of
        from lakeward.engines.sql.query import DIALECT, quoted, read_query
        from lakeward.engines.sql.remembered import wanted_of
        from lakeward.model.lineage.origin import of_query
        from lakeward.read.result import QueryResult
        from lakeward.read.sources import source_of
        from lakeward.read.timing import TimedQuery

        asked = read_query(query, params)
        session = session_of(engine)
        tables = self._cut(asked.tables)
        pin = Pin(self._context, self._keeper, tables)
        try:
            for table in tables:
                audit_read(self._context, table.log_head, table.version, "sql")
            needs = wanted_of(asked, [t.schema for t in tables])
            names = [f"__lakeward_{n}" for n in range(len(tables))]
            for name, table, need in zip(names, tables, needs, strict=True):
                session.register(name, source_of(table, need))
            bound = asked.rewritten([quoted(n) for n in names], [t.schema for t in tables])
            running = session.run(bound)
        except BaseException:
            session.close()
            pin.release()
            raise

        def release() -> None:
            session.close()
            pin.release()

        seen = {t.name: (t.log_head.table_id, t.version) for t in tables}
        origin = of_query(query, DIALECT, seen)
        made = TimedQuery(self._context, tables, running)
        return QueryResult(made, release, pin.forget, origin)

    def tables_of_query(
        self,
        query: str,
        params: Params | None = None,
        *,
        among: Callable[[TableName], bool] | None = None,
    ) -> list[str]:
        """Return the full names of the tables that a query reads, in the order of the query.

        Args:
            query: The query.
            params: The values of its parameters.
            among: Returns whether a table may be read, by its name; all may unless given.

        Raises:
            InvalidInput: The query cannot be parsed, or a value is missing.
            UnsupportedFeature: The query would change something.
            TableNotFound: The query names a table that the lake does not have, or one that may
                not be read. The error is the same in both cases.
        """
        from lakeward.engines.sql.query import read_query

        asked = read_query(query, params)
        with self._context.database.read() as session:
            known = {h.name: h for h in heads.all_heads(session) if among is None or among(h.name)}
        return [str(found_table(ref.parts, known).name) for ref in asked.tables]

    def duckdb(self, *, at: datetime | str | int | None = None) -> LakeDuckDB:
        """Open a DuckDB connection in which every table of one pinned cut is a view.

        Namespaces are schemas: `SELECT * FROM sales.orders`. It is an ordinary in-memory connection
        of the installed DuckDB, which can join the views with files and frames. Close it to release
        the versions, or use `with lake.duckdb() as connection:`. DuckDB reads the files of a table
        itself where it can, and skips row groups by their statistics and Bloom filters. Other
        tables, and those of many small files, get the filters of a query: their files are skipped
        by partition, statistics and Bloom filters, and only the others are opened.

        Args:
            at: The cut, as `snapshot` takes it; now unless given.

        Raises:
            MissingExtra: DuckDB is not installed.
            UnsupportedFeature: DuckDB cannot have a table as a view, such as two tables whose
                names differ only in case.
        """
        from lakeward.engines.sql import duckdb
        from lakeward.engines.sql.pruning import Wanted
        from lakeward.read.sources import source_of

        connection = duckdb.connected()
        snapshot = LakeSnapshot(self._context, self._keeper, at)
        snapshot.__enter__()
        try:
            duckdb.check_names(TableName.parse(table.name) for table in snapshot)
            for table in snapshot:
                audit_read(self._context, table.log_head, table.version, "duckdb")
                name = TableName.parse(table.name)
                source = source_of(table, Wanted(), has_query=False)
                duckdb.register(connection, name.name, source, schema=name.namespace or None)
        except BaseException:
            connection.close()
            snapshot.__exit__(None, None, None)
            raise
        return LakeDuckDB(connection, snapshot)

    def _cut(self, refs: Sequence[TableRef]) -> list[TableSnapshot]:
        """Return a query's tables; tables without `VERSION` or `TIMESTAMP AS OF` are at one cut."""
        follow_all(self._context)
        with self._context.database.read() as session:
            known = {h.name: h for h in heads.all_heads(session)}
            found = [found_table(ref.parts, known) for ref in refs]
            tables = []
            for ref, head in zip(refs, found, strict=True):
                travel = ref.travel
                if travel is not None and travel.version is not None:
                    version = travel.version
                    tables.append(snapshots.at_version(self._context, session, head, version))
                elif travel is not None and travel.timestamp is not None:
                    moment = travel.timestamp
                    tables.append(snapshots.at_time(self._context, session, head, moment))
                else:
                    tables.append(snapshots.latest(self._context, session, head))
        for n, ref in enumerate(refs):
            if ref.travel is not None and ref.travel.tag is not None:
                tables[n] = self.table(str(found[n].name)).at(tag=ref.travel.tag)
        return tables


class Pin:
    """Versions protected from vacuum while a query may read them."""

    def __init__(
        self, context: LakeContext, keeper: LeaseKeeper, tables: Sequence[TableSnapshot]
    ) -> None:
        self._context = context
        self._keeper = keeper
        self._ids: list[str] = []
        if context.database.read_only is not None:
            return
        held = _one_version_each({(t.log_head.table_id, t.version) for t in tables})
        if not held:
            return
        ids = [new_transaction_id() for _ in held]
        with context.database.write(durable=False) as session:
            now = context.database.clock_ms(session)
            for pin, versions in zip(ids, held, strict=True):
                pins.insert(session, now, pin_id=pin, actor=context.actor, versions=versions)
        self._ids = ids
        for pin in ids:
            keeper.hold_pin(pin)

    def forget(self) -> None:
        """Stop renewing the pin, so that it expires with its lease. Thread-safe."""
        for pin in self._ids:
            self._keeper.let_go(pin)

    def release(self) -> None:
        """Release the versions immediately."""
        ids, self._ids = self._ids, []
        if not ids:
            return
        for pin in ids:
            self._keeper.let_go(pin)
        try:
            with self._context.database.write(durable=False) as session:
                for pin in ids:
                    pins.release(session, pin)
        except LakewardError as failure:
            _LOG.warning("Pins %s are not released and end with their leases: %s", ids, failure)


def _one_version_each(wanted: set[tuple[int, int]]) -> list[dict[int, int]]:
    """Divide versions of tables into mappings that have one version of a table each."""
    out: list[dict[int, int]] = []
    for table_id, version in sorted(wanted):
        place = next((found for found in out if table_id not in found), None)
        if place is None:
            out.append(place := {})
        place[table_id] = version
    return out


class LakeDuckDB:
    """A DuckDB connection with the tables of a lake as views; it has all methods of a connection.

    Attributes:
        connection: The connection itself, for tools that require one.
        versions: The version of each table.
    """

    def __init__(self, connection: Any, snapshot: LakeSnapshot) -> None:
        self.connection = connection
        self.versions = snapshot.versions
        self._snapshot: LakeSnapshot | None = snapshot

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)

    def __repr__(self) -> str:
        return f"LakeDuckDB(versions={dict(self.versions)})"

    def close(self) -> None:
        """Close the connection and release the versions."""
        self.connection.close()
        snapshot, self._snapshot = self._snapshot, None
        if snapshot is not None:
            snapshot.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def found_table(parts: Sequence[str], known: Mapping[TableName, _Named]) -> _Named:
    """Return the table that a name in a query refers to; ignore case unless that is ambiguous.

    Raises:
        TableNotFound: There is no such table.
    """
    text = ".".join(parts)
    if len(parts) > 2:
        what = f"{text} is not the name of a table of the lake."
        raise TableNotFound(what, hint="Write name, or namespace.name.", table=text)
    wanted = TableName(parts[0] if len(parts) == 2 else "", parts[-1])
    if wanted in known:
        return known[wanted]
    alike = [h for n, h in known.items() if str(n).lower() == text.lower()]
    if len(alike) == 1:
        return alike[0]
    what = f"The lake has no table {text}."
    raise TableNotFound(what, hint=hint_for_unknown(wanted, known), table=text)
