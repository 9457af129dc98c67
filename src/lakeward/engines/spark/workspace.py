"""The Spark session of one transaction, in which the lake's tables are registered.

The session is a copy of the user's session, with its temporary views and settings, but its time
zone is UTC. Delta tables are registered in databases that only this transaction uses, Iceberg
tables in a catalog in memory: both are removed when the transaction or the process ends. Nothing of
them is in the store or in metadata of tables. The caller decides which files they refer to.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections import deque
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.spark import plans
from lakeward.engines.spark.databases import NAMESPACE, Databases
from lakeward.engines.spark.delta_logs import DeltaLogs
from lakeward.engines.spark.extra import check, pyspark
from lakeward.engines.spark.failures import NotRun, analysis_error, first_line, was_not_run
from lakeward.engines.spark.settings import (
    DEFAULT_CATALOG,
    PARAMETERS,
    SESSION_CATALOG,
    TIME_ZONE,
    UTC,
    iceberg_catalog,
)
from lakeward.engines.spark.types import foreign_types
from lakeward.engines.spark.versions import LAKE_CATALOG
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.model.columns import parse_columns
from lakeward.model.quoting import identifier, literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame as DataFrame
    from pyspark.sql import SparkSession as SparkSession

_PINNED: Final = "__pinned_"
"""A part of the names of namespaces whose tables are only read."""
_SAME: Final = frozenset({UTC, "Etc/UTC", "Z", "GMT", "+00:00"})
"""Names of the time zone in which statements of transactions run."""
_WARNED_ZONES: Final[set[str]] = set()
"""Time zones for which a warning was logged already."""
_LOG: Final = logging.getLogger(__name__)
_LEFT: Final[deque[Any]] = deque()
"""Catalogs of discarded sessions, which are closed later, outside of the garbage collector."""


class Workspace:
    """The tables of one transaction in Spark."""

    def __init__(self, spark: SparkSession, transaction_id: str) -> None:
        check(spark)
        _close_left()
        self._own = spark
        java = spark._jsparkSession.cloneSession()
        self.session: SparkSession = pyspark("sql").SparkSession(spark.sparkContext, java)
        self._tell_zone()
        self.set_utc()
        self.session.conf.set(PARAMETERS, "true")
        self._leave_lake_catalog()
        self._tag = f"txn_{sha256(transaction_id.encode()).hexdigest()[:16]}"
        self._place: str | None = None
        self._databases: set[str] = set()
        self._database_names = Databases(self._tag)
        self._namespaces: set[str] = set()
        self._entered: set[str] = set()
        self._documents: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        self._views = 0
        self._known_views = Views(spark, self.session)
        self.delta_logs = DeltaLogs(self.session)

    def enter_version(self, namespace: str, name: str, location: str, version: int) -> None:
        """Register a version of a Delta table, to be read."""
        rows = f"SELECT * FROM delta.{identifier(location)} VERSION AS OF {version}"
        self._show(namespace, name, rows)

    def enter_delta(self, namespace: str, name: str, location: str) -> None:
        """Register a Delta table, to be written and read; it replaces a registered version."""
        self._make_database(self.database(namespace, name, written=True))
        table = self.delta_name(namespace, name, written=True)
        self.session.sql(f"CREATE TABLE {table} USING delta LOCATION {literal(location)}")
        self.show_delta(namespace, name)

    def leave_delta(self, namespace: str, name: str) -> None:
        """Unregister a Delta table, so that another table can have its name."""
        self.session.sql(f"DROP VIEW IF EXISTS {self.delta_name(namespace, name)}")
        table = self.delta_name(namespace, name, written=True)
        self.session.sql(f"DROP TABLE IF EXISTS {table}")

    def show_delta(self, namespace: str, name: str) -> None:
        """Make a registered Delta table readable, with the columns that it has now."""
        # Statements of Iceberg's cannot read a Delta table by its own name, but a view of it.
        table = self.delta_name(namespace, name, written=True)
        self._show(namespace, name, f"SELECT * FROM {table}")

    def enter_iceberg(self, namespace: str, name: str, document: str) -> None:
        """Register an Iceberg table at a metadata document; replace a previous registration."""
        own = self.iceberg_name(namespace, name)
        if own in self._entered:
            self.session.sql(f"DROP TABLE {own}")
        self._register(namespace or NAMESPACE, own, document)

    def leave_iceberg(self, namespace: str, name: str) -> None:
        """Unregister an Iceberg table while its files still exist."""
        own = self.iceberg_name(namespace, name)
        if own in self._entered:
            self.session.sql(f"DROP TABLE {own}")
            self._entered.discard(own)

    def pin_iceberg(self, namespace: str, name: str, document: str) -> tuple[str, str]:
        """Register an Iceberg table at a metadata document; return its namespace and full name."""
        number = 1
        while True:
            space = f"{namespace or NAMESPACE}{_PINNED}{number}"
            own = identifier(self._tag, space, name)
            if own not in self._documents:
                self._register(space, own, document)
                self._documents[own] = document
            if self._documents[own] == document:
                return space, own
            number += 1

    def _register(self, namespace: str, own: str, document: str) -> None:
        if not self._namespaces:
            self._make_catalog()
        space = identifier(self._tag, namespace)
        if space not in self._namespaces:
            self.session.sql(f"CREATE NAMESPACE IF NOT EXISTS {space}")
            self._namespaces.add(space)
        # By its whole name: Iceberg takes the first part for a catalog, and warns if it is none.
        self.session.sql(
            f"CALL {identifier(self._tag)}.system.register_table"
            f"({literal(own)}, {literal(document)})"
        )
        self._entered.add(own)

    def share(self, table: str) -> str:
        """Let frames of the user's session write a registered table; return its name there.

        Spark looks up a name in the session of the frame. Databases are the same in all sessions;
        the catalog is added to the user's session until the transaction ends.
        """
        if self._namespaces and not self._shared:
            self._shared = self._catalog()
            for key, value in self._shared.items():
                self._own.conf.set(key, value)
        default = self._own.conf.get(DEFAULT_CATALOG, None) or SESSION_CATALOG
        if self._own.conf.get(f"spark.sql.catalog.{default}", None) == LAKE_CATALOG:
            # `insertInto` takes a name with `spark_catalog` only where that is the default; the
            # lake's catalog passes it on.
            return table.replace(identifier(SESSION_CATALOG), identifier(default), 1)
        return table

    def iceberg_name(self, namespace: str, name: str) -> str:
        """Return the full name of a registered Iceberg table."""
        return identifier(self._tag, namespace or NAMESPACE, name)

    def delta_name(self, namespace: str, name: str, *, written: bool = False) -> str:
        """Return the full name of a registered Delta table, for reading or for writing."""
        database = self.database(namespace, name, written=written)
        return identifier(SESSION_CATALOG, database, name)

    def database(self, namespace: str, name: str, *, written: bool = False) -> str:
        """Return the database of a Delta table, for reading or for writing."""
        return self._database_names.of(namespace, name, written=written)

    @property
    def procedures(self) -> str:
        """The prefix of Iceberg procedures for registered tables."""
        return identifier(self._tag, "system")

    def document(self, namespace: str, name: str) -> str:
        """Return the location of the newest metadata document of a registered Iceberg table."""
        table = self._java.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.session._jsparkSession, self.iceberg_name(namespace, name)
        )
        return str(table.operations().current().metadataFileLocation())

    def resolved(self, sql: str, *, is_view: bool = False) -> str | None:
        """Name a relation's rows so that any statement can read them; None if its name suffices."""
        rows = self.frame(f"SELECT * FROM {sql}")
        if plans.reads_vectors(rows) or (is_view and plans.reads_by_name(rows)):
            return identifier(self.named(rows, resolve=True))
        return None

    def view_text(self, name: str) -> str | None:
        """Return the query of a temporary view that SQL created; None for other views."""
        found = self.session._jsparkSession.sessionState().catalog().getTempView(name)
        text = found.get().desc().viewText() if found.isDefined() else None
        return str(text.get()) if text is not None and text.isDefined() else None

    def columns(self, frame: Any) -> Any:
        """Return the columns of a frame as an Arrow schema."""
        return _arrow_schema(frame.schema)

    def declared(self, columns: str) -> Any:
        """Return columns that are declared in SQL as an Arrow schema."""
        try:
            return _arrow_schema(pyspark("sql.types").StructType.fromDDL(columns))
        except pyspark("errors").PySparkException as error:
            # Spark reads defaults and generated columns as a part of whole statements only.
            with suppress(InvalidInput):
                return parse_columns(columns)
            what = f"The columns cannot be understood: {first_line(error)}"
            raise InvalidInput(what, hint="Declare names, types and NOT NULL.") from error

    def is_view(self, name: str) -> bool:
        """Return whether statements see a temporary view of this name."""
        return self._known_views.has(name)

    def named(self, frame: Any, *, resolve: bool = False) -> str:
        """Create a temporary view of a frame of any session of the same Spark; return its name."""
        if resolve and (plans.reads_vectors(frame) or plans.reads_by_name(frame)):
            frame = plans.resolved(self.session, frame)
        name = self.new_name()
        take(self.session, frame, name)
        return name

    def new_name(self) -> str:
        """Return an unused name for a temporary view."""
        self._views += 1
        return f"{self._tag}_rows_{self._views}"

    def is_live(self, frame: Any) -> bool:
        """Return whether a frame will show later writes to tables of the transaction."""
        return plans.is_live(frame, self._tag, _PINNED)

    def set_utc(self) -> None:
        """Set the session's time zone to UTC, in which the lake reads what Spark generates.

        The user may change the setting in this session, so it is set again before each statement.
        """
        self.session.conf.set(TIME_ZONE, UTC)

    def frame(self, sql: str, args: Any = None) -> DataFrame:
        """Run a statement as it is written."""
        self.set_utc()
        try:
            return self.session.sql(sql, args)
        except Exception as error:
            known = analysis_error(error)
            if known is not None and was_not_run(known):
                raise NotRun(known) from error
            raise

    def close(self) -> None:
        """Unregister every table; their files stay."""
        for database in self._databases:
            self.session.sql(f"DROP DATABASE IF EXISTS {identifier(database)} CASCADE")
        self._databases.clear()
        self.delta_logs.forget()
        self._unshare()
        if self._place is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            self._place = None

    @property
    def _java(self) -> Any:
        return self.session._jvm

    def _leave_lake_catalog(self) -> None:
        """Make Spark's catalog the current one, so that names refer to the transaction's tables.

        The setting of the default catalog stays, because Spark may look it up in another session.
        """
        database = str(_view_catalog(self.session).getCurrentDatabase())
        self.session.sql(f"USE {identifier(SESSION_CATALOG, database)}")

    def _tell_zone(self) -> None:
        """Log, once for each zone, that statements do not run in the zone of the user's session."""
        zone = self._own.conf.get(TIME_ZONE) or UTC
        if zone not in _SAME and zone not in _WARNED_ZONES:
            _WARNED_ZONES.add(zone)
            _LOG.warning(
                "The Spark session is in the time zone %s; statements of a transaction run in UTC:"
                " write moments with their zone, such as TIMESTAMP '2026-01-31 09:00:00 %s'.",
                zone,
                zone,
            )

    def _show(self, namespace: str, name: str, rows: str) -> None:
        self._make_database(self.database(namespace, name))
        self.session.sql(f"CREATE OR REPLACE VIEW {self.delta_name(namespace, name)} AS {rows}")

    def _make_database(self, name: str) -> None:
        if name not in self._databases:
            place = literal(Path(self._directory()).as_uri())
            self.session.sql(f"CREATE DATABASE IF NOT EXISTS {identifier(name)} LOCATION {place}")
            self._databases.add(name)

    def _directory(self) -> str:
        """Return a directory for databases, which need one although they write nothing there."""
        if self._place is None:
            self._place = tempfile.mkdtemp(prefix="lakeward-spark-")
        return self._place

    def _make_catalog(self) -> None:
        for key, value in self._catalog().items():
            self.session.conf.set(key, value)
        self.session.sql(f"SHOW NAMESPACES IN {identifier(self._tag)}")
        # Frames of the session may be read after the transaction, and ask the catalog again.
        made = _catalogs(self.session).catalog(self._tag).icebergCatalog()
        weakref.finalize(self.session, _LEFT.append, made).atexit = False

    def _catalog(self) -> dict[str, str]:
        # The database is in memory as long as one connection holds it; all see the same.
        store = {"uri": f"jdbc:sqlite:file:{self._tag}?mode=memory&cache=shared", "clients": "1"}
        return iceberg_catalog(self._tag, store, self._directory())

    def _unshare(self) -> None:
        if not self._shared:
            return
        manager = _catalogs(self._own)
        if manager.listCatalogs(self._java.scala.Option.empty()).contains(self._tag):
            # Spark keeps every catalog that it has used as long as the session lives.
            manager.catalog(self._tag).icebergCatalog().close()
        for key in self._shared:
            self._own.conf.unset(key)
        self._shared = {}


class Views:
    """The temporary views of a transaction's session: those of the user and of the transaction.

    The session begins as a copy of the user's session. Views that the user creates or replaces
    later are copied when a statement uses them; a view of the transaction hides the user's view.
    """

    def __init__(self, user: SparkSession, session: SparkSession) -> None:
        self._user = user
        self._session = session
        # Of each view that was taken over: the user's when that was done, and what it became.
        self._taken: dict[str, tuple[Any, Any]] = {}
        self._copied = _view_catalog(session).tempViews().clone()

    def has(self, name: str) -> bool:
        """Copy the user's view of this name if it is newer; return whether there is a view."""
        theirs = _view_catalog(self._user).getRawTempView(name)
        ours = _view_catalog(self._session).getRawTempView(name)
        if theirs.isDefined() and self._is_older(name, theirs.get(), ours):
            take(self._session, self._user.table(identifier(name)), name)
            now = _view_catalog(self._session).getRawTempView(name).get()
            self._taken[name.lower()] = (theirs.get(), now)
            return True
        return bool(ours.isDefined())

    def _is_older(self, name: str, theirs: Any, ours: Any) -> bool:
        """Return whether the user created or replaced the view since it was copied."""
        if not ours.isDefined():
            return True
        copied = self._copied.get(name.lower())
        both = (copied.get(), copied.get()) if copied.isDefined() else (None, None)
        was, became = self._taken.get(name.lower(), both)
        if became is None or not ours.get().equals(became):
            # It was made in the transaction.
            return False
        return not theirs.equals(was)


def take(session: SparkSession, frame: DataFrame, name: str) -> None:
    """Create a temporary view in a session, of a frame of any session of the same Spark."""
    jvm: Any = session._jvm
    plan = frame._jdf.queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    rows.createOrReplaceTempView(name)


def _view_catalog(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().catalog()


def _arrow_schema(schema: Any) -> Any:
    for column, kind, instead in foreign_types(schema):
        what = f"Column {column} is {kind}, which tables of the lake do not keep."
        raise UnsupportedFeature(what, hint=instead, column=column)
    return pyspark("sql.pandas.types").to_arrow_schema(schema)


def _catalogs(session: SparkSession) -> Any:
    """Return the catalog manager of a session."""
    return session._jsparkSession.sessionState().catalogManager()


def _close_left() -> None:
    """Close catalogs of discarded sessions, each of which keeps a database in memory."""
    gone = import_module("py4j.protocol").Py4JError
    while _LEFT:
        # Its Spark may have been stopped.
        with suppress(gone):
            _LEFT.popleft().close()
