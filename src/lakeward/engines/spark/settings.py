"""The settings that configure a Spark session for the lake.

The user's settings take precedence, except where both are needed: extensions and jars are joined.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lakeward.engines.spark.versions import (
    DELTA_CATALOG,
    EXTENSIONS,
    ICEBERG_CATALOG,
    JDBC_CATALOG,
    LAKE_CATALOG,
)
from lakeward.errors import UnsupportedFeature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLASS_PATH: Final = "spark.driver.extraClassPath"
JOINED: Final = {"spark.jars": ",", "spark.sql.extensions": ",", _CLASS_PATH: ":"}
"""Settings that are lists, with their separators: the user's values are added to the lake's."""
PARAMETERS: Final = "spark.sql.legacy.parameterSubstitution.constantsOnly"
"""The setting that binds parameters when a statement is analysed, not when it is parsed."""
TIME_ZONE: Final = "spark.sql.session.timeZone"
UTC: Final = "UTC"
LOCAL: Final = "local[*]"
DEFAULT_CATALOG: Final = "spark.sql.defaultCatalog"
SESSION_CATALOG: Final = "spark_catalog"
"""The name of Spark's built-in catalog."""
_LEAST_MEGABYTES: Final = 1024
_MOST_MEGABYTES: Final = 8192
LOOPBACK: Final = "127.0.0.1"
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOG: Final = Path(__file__).with_name("log4j2.properties")


def settings(
    own: Mapping[str, str],
    *,
    catalog: str,
    store: Mapping[str, str] | None,
    warehouse: str,
    jars: Sequence[str],
) -> dict[str, str]:
    """Return all settings of a session of the lake."""
    wired = {
        "spark.master": master_of(own),
        "spark.app.name": "lakeward",
        "spark.jars": ",".join(jars),
        # A Thrift server opens a client's session without the classes of `spark.jars`.
        _CLASS_PATH: ":".join(jars),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        # The log and other engines keep instants in UTC; a session that does not would write
        # partitions of days and hours that nobody else agrees with.
        TIME_ZONE: UTC,
        # Delta would prune by a moment's day in the zone of the session that reads, and values are
        # those of UTC: it would skip files with matching rows. Statistics still prune.
        "spark.databricks.delta.generatedColumn.partitionFilterOptimization.enabled": "false",
        # The parsers of Delta and Iceberg do not pass on parameters in Spark's newer way.
        PARAMETERS: "true",
        # Readers that are not Spark take the old form for nanoseconds.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    if store is not None:
        # Names without a catalog are those of the lake's tables.
        wired |= {DEFAULT_CATALOG: catalog, **lake_catalog(catalog, store, warehouse)}
    joined = {
        k: between.join(_list(wired.get(k), between) | _list(own.get(k), between))
        for k, between in JOINED.items()
    }
    if is_local(own):
        wired |= _small_machine()
        joined[_DRIVER_OPTIONS] = _with_log(own.get(_DRIVER_OPTIONS, ""))
    return {**wired, **own, **{k: v for k, v in joined.items() if v}}


def is_local(own: Mapping[str, str]) -> bool:
    """Whether a session with these settings runs on this machine alone."""
    return master_of(own).startswith("local")


def master_of(own: Mapping[str, str]) -> str:
    """Return the Spark master of a session with these settings."""
    return own.get("spark.master", os.environ.get("SPARK_MASTER", LOCAL))


def lake_catalog(name: str, store: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Return the settings of the catalog that shows all tables of a lake, for reading."""
    prefix = f"spark.sql.catalog.{name}"
    options = {"warehouse": warehouse, **store}
    return {prefix: LAKE_CATALOG, **{f"{prefix}.{key}": value for key, value in options.items()}}


def iceberg_catalog(name: str, store: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """Return the settings of an Iceberg catalog that uses JDBC."""
    prefix = f"spark.sql.catalog.{name}"
    return {
        prefix: ICEBERG_CATALOG,
        f"{prefix}.catalog-impl": JDBC_CATALOG,
        f"{prefix}.jdbc.schema-version": "V1",
        f"{prefix}.warehouse": warehouse,
        # Others move the pointers too, and a cached table does not notice.
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{key}": value for key, value in store.items()},
    }


def with_catalog(
    spark: SparkSession, name: str, store: Mapping[str, str] | None, warehouse: str
) -> SparkSession:
    """Return a session of the same Spark in which a catalog is that of a lake."""
    if store is None:
        what = "Spark cannot reach the store, which is behind a socket that Java cannot use."
        raise UnsupportedFeature(what, hint="Open the lake by the server's host and port.")
    # A session that was not configured by the lake need not have the lake's classes.
    is_ours = EXTENSIONS[-1] in (spark.conf.get("spark.sql.extensions", "") or "")
    wanted = (lake_catalog if is_ours else iceberg_catalog)(name, store, warehouse)
    if all(spark.conf.get(key, None) == value for key, value in wanted.items()):
        return spark
    own = spark.newSession()
    for key, value in wanted.items():
        own.conf.set(key, value)
    return own


def _small_machine() -> dict[str, str]:
    cores = str(max(2, os.cpu_count() or 2))
    memory = _memory_megabytes()
    return {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": f"{memory}m",
        # Joins of a few million rows: a hash table is built sooner than both sides are sorted.
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": f"{memory // 16}m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": cores,
    }


def _with_log(options: str) -> str:
    """Return Java options with Lakeward's logging settings, unless the user has chosen some."""
    if "log4j" in options or {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
        return options
    return f"{options} -Dlog4j2.configurationFile={_LOG.as_uri()}".strip()


def _memory_megabytes() -> int:
    """Return a quarter of the machine's memory, within fixed bounds."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(max(found // 4, _LEAST_MEGABYTES), _MOST_MEGABYTES)


def _list(value: str | None, between: str) -> dict[str, None]:
    return dict.fromkeys(part.strip() for part in (value or "").split(between) if part.strip())
