"""Starts Spark for a lake, and configures a builder of the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.compiled import lake_classes
from lakeward.engines.spark.extra import check, pyspark
from lakeward.engines.spark.jars import jars
from lakeward.engines.spark.java import java_home
from lakeward.engines.spark.settings import LOOPBACK, is_local, settings
from lakeward.engines.spark.versions import PACKAGES, STORE_PACKAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession as SparkSession


def configured(
    builder: SparkSession.Builder,
    own: Mapping[str, str],
    *,
    catalog: str,
    store: Mapping[str, str] | None,
    warehouse: str,
) -> SparkSession.Builder:
    """Return a builder with everything that the lake needs; missing jars are downloaded."""
    # What the builder was given already; pyspark has no other way to ask for it.
    before: Mapping[str, Any] = getattr(builder, "_options", {})
    wanted = {**{k: str(v) for k, v in before.items()}, **own}
    if not _is_running():
        # Spark's launcher, in a process that this one starts, uses it.
        os.environ["JAVA_HOME"] = java_home()
        if is_local(wanted):
            # Otherwise it warns that it has chosen an address, which it does not listen on then.
            os.environ.setdefault("SPARK_LOCAL_IP", LOOPBACK)
        _set_python(wanted)
    found = all_settings(wanted, catalog=catalog, store=store, warehouse=warehouse)
    for key, value in found.items():
        builder = builder.config(key, value)
    return builder


def all_settings(
    own: Mapping[str, str], *, catalog: str, store: Mapping[str, str] | None, warehouse: str
) -> dict[str, str]:
    """Return the settings of a session of the lake; missing jars are downloaded."""
    files = jars(packages_of(warehouse), own)
    files = [*files, lake_classes(files)]
    return settings(own, catalog=catalog, store=store, warehouse=warehouse, jars=files)


def start(
    own: Mapping[str, str], *, catalog: str, store: Mapping[str, str] | None, warehouse: str
) -> SparkSession:
    """Start, or return, a session with these settings."""
    builder = pyspark("sql").SparkSession.Builder()
    made = configured(builder, own, catalog=catalog, store=store, warehouse=warehouse)
    session: SparkSession = made.getOrCreate()
    check(session)
    return session


def _set_python(wanted: Mapping[str, str]) -> None:
    """Let Spark run Python functions in this program's Python, unless the user chose another.

    Spark would use the first `python3` on the path, which may lack packages of this one. On a
    cluster the path of this program may not exist on the workers, so none is set.
    """
    chosen = wanted.get("spark.pyspark.python")
    if chosen is None and is_local(wanted):
        chosen = sys.executable
    if chosen:
        # pyspark looks at the environment alone when it is not started by spark-submit.
        os.environ.setdefault("PYSPARK_PYTHON", chosen)


def _is_running() -> bool:
    return pyspark().SparkContext._active_spark_context is not None


def packages_of(warehouse: str) -> Sequence[str]:
    """Return the Maven coordinates of what a session of a lake with this warehouse needs."""
    return (*PACKAGES, *STORE_PACKAGES.get(warehouse.partition("://")[0], ()))
