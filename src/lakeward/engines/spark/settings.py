"""The settings that make a Spark session one of the lake's.

Whatever the user sets wins, except where both are needed: extensions and jars are joined.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.engines.spark.versions import (
    DELTA_CATALOG,
    EXTENSIONS,
    ICEBERG_CATALOG,
    JDBC_CATALOG,
)

JOINED: Final = ("spark.jars", "spark.sql.extensions")
"""Settings that are lists: what the user gives stands beside what the lake needs."""
LOCAL: Final = "local[*]"
_LOOPBACK: Final = "127.0.0.1"


def settings(
    own: Mapping[str, str],
    *,
    catalog: str,
    store: Mapping[str, str] | None,
    warehouse: str,
    jars: Sequence[str],
) -> dict[str, str]:
    """All settings of a session of the lake.

    Args:
        own: The user's.
        catalog: The name of the lake's Iceberg catalog.
        store: How JDBC reaches the store, or None where it cannot.
        warehouse: Where the tables' files are.
        jars: Of Delta, Iceberg and the drivers.
    """
    master = own.get("spark.master", os.environ.get("SPARK_MASTER", LOCAL))
    wired = {
        "spark.master": master,
        "spark.app.name": "lakeward",
        "spark.jars": ",".join(jars),
        "spark.sql.extensions": ",".join(EXTENSIONS),
        "spark.sql.catalog.spark_catalog": DELTA_CATALOG,
        # The log and other engines keep instants in UTC; a session that does not would write
        # partitions of days and hours that nobody else agrees with.
        "spark.sql.session.timeZone": "UTC",
        # Readers that are not Spark take the old form for nanoseconds.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }
    if store is not None:
        wired |= iceberg_catalog(catalog, store, warehouse)
    if master.startswith("local"):
        wired |= _small_machine()
    joined = {k: ",".join(_list(wired.get(k)) | _list(own.get(k))) for k in JOINED}
    return {**wired, **own, **{k: v for k, v in joined.items() if v}}


def iceberg_catalog(name: str, store: Mapping[str, str], warehouse: str) -> dict[str, str]:
    """The settings of an Iceberg catalog behind JDBC."""
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


def _small_machine() -> dict[str, str]:
    cores = str(max(2, os.cpu_count() or 2))
    return {
        "spark.driver.bindAddress": _LOOPBACK,
        "spark.driver.host": _LOOPBACK,
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": cores,
        "spark.databricks.delta.snapshotPartitions": cores,
    }


def _list(value: str | None) -> dict[str, None]:
    return dict.fromkeys(part.strip() for part in (value or "").split(",") if part.strip())
