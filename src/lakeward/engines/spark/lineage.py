"""Finds what the columns and rows of a Spark DataFrame depend on, from its analysed plan."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark passes a query's id to the code of `foreachBatch`."""
_LOG: Final = logging.getLogger(__name__)


def plan_lineage(frame: DataFrame) -> dict[str, Any] | None:
    """Return what `Lineage.scala` finds in a DataFrame's plan; None if it fails.

    It fails in a session that was started without Lakeward's classes. Lineage must not fail the
    operation that it describes, so an error of Spark is only logged.
    """
    try:
        java: Any = frame.sparkSession._jvm
        plans = [frame._jdf.queryExecution().analyzed(), *_batch_plan(frame)]
        found: dict[str, Any] = json.loads(java.lakeward.spark.Lineage.of(*plans))
    except Exception as error:  # noqa: BLE001  whatever Spark raises
        _LOG.debug("The sources of a frame cannot be found: %s", error)
        return None
    return found


def _batch_plan(frame: DataFrame) -> list[Any]:
    """Return the plan of the micro-batch that this thread processes; empty outside of a stream."""
    session: Any = frame.sparkSession
    query = session.sparkContext.getLocalProperty(QUERY_ID)
    if not query:
        return []
    # A query belongs to another session than its batches, so it is not among `session.streams`.
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    found = running.get(session._jvm.java.util.UUID.fromString(query))
    return [] if found is None else [found.lastExecution().analyzed()]
