"""Finds what a Spark DataFrame reads, and prepares DataFrames that Spark can write anywhere.

Delta 4.4 cannot read a table with deletion vectors if the rows are written directly into a table of
another format: it leaves out the step that resolves which files are read (delta-io/delta, issue
4794). A DataFrame over the plan that Spark has optimised has had that step. Nothing is computed for
it; conditions and columns of the statement are still pushed down, and select files.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from lakeward.engines.spark.extra import pyspark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FEATURE: Final = "deletionVectors"
_FILES: Final = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"


def resolved(session: SparkSession, frame: DataFrame) -> DataFrame:
    """Return a DataFrame with the same rows, fixed to the newest versions of its Delta tables."""
    rows = _frame(session, frame._jdf.queryExecution().optimizedPlan())
    # The optimiser may change the case of a column's name.
    return rows.toDF(*frame.columns)


def reads_vectors(frame: DataFrame) -> bool:
    """Whether a DataFrame reads unresolved Delta tables that may have deletion vectors."""
    return any(_FEATURE in i.protocol().toString() for i in _unresolved(frame))


def reads_by_name(frame: DataFrame) -> bool:
    """Whether a DataFrame reads tables to which a temporary view of it refers by name.

    Spark 4.1 does not look such names up again in the source of a MERGE into an Iceberg table.
    """
    return any(_kind(leaf) == "DataSourceV2Relation" for leaf in _leaves(frame))


def is_live(frame: DataFrame, catalog: str, pinned: str) -> bool:
    """Whether a DataFrame shows rows that are written later to tables of a transaction."""
    if catalog not in frame._jdf.queryExecution().analyzed().toString():
        return False
    if any(not index.isTimeTravelQuery() for index in _unresolved(frame)):
        return True
    found = [leaf.name() for leaf in _leaves(frame) if _kind(leaf) == "DataSourceV2Relation"]
    return any(catalog in name and pinned not in name for name in found)


def _unresolved(frame: DataFrame) -> Iterator[Any]:
    """Yield the indexes of Delta tables whose files are looked up when the DataFrame is run."""
    gateway = frame.sparkSession.sparkContext._gateway
    is_instance_of = import_module("py4j.java_gateway").is_instance_of
    for leaf in _leaves(frame):
        if _kind(leaf) != "LogicalRelation":
            continue
        if is_instance_of(gateway, leaf.relation(), _FILES):
            index = leaf.relation().location()
            if _kind(index) == "TahoeLogFileIndex":
                yield index


def _leaves(frame: DataFrame) -> Iterator[Any]:
    plan = frame._jdf.queryExecution().analyzed()
    for part in (plan, *_each(plan.subqueriesAll())):
        yield from _each(part.collectLeaves())


def _each(found: Any) -> Iterator[Any]:
    return (found.apply(n) for n in range(found.size()))


def _kind(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())


def _frame(session: SparkSession, plan: Any) -> DataFrame:
    java: Any = session._jvm
    rows = java.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    found: DataFrame = pyspark("sql").DataFrame(rows, session)
    return found
