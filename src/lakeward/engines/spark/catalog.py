"""A lake's Iceberg catalog in a session that may have been made for another lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from lakeward.engines.spark.settings import iceberg_catalog
from lakeward.errors import UnsupportedFeature

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def with_catalog(
    spark: SparkSession, name: str, store: Mapping[str, str] | None, warehouse: str
) -> SparkSession:
    """A session of the same Spark in which a catalog is that of a lake."""
    if store is None:
        what = "Spark cannot reach the store, which is behind a socket that Java cannot use."
        raise UnsupportedFeature(what, hint="Open the lake by the server's host and port.")
    wanted = iceberg_catalog(name, store, warehouse)
    if all(spark.conf.get(key, None) == value for key, value in wanted.items()):
        return spark
    own = spark.newSession()
    for key, value in wanted.items():
        own.conf.set(key, value)
    return own
