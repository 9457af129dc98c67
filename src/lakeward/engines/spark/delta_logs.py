"""The logs of Delta tables that Spark keeps in memory.

Delta keeps the log and the newest snapshot of up to 10,000 directories for an hour after their last
use. The directories of a transaction's branches are of no use after it, and a driver that runs
thousands of transactions would run out of memory.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)


class DeltaLogs:
    """The directories of Delta tables that only one transaction uses."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._locations: set[str] = set()

    def add(self, location: str) -> None:
        """Remember a directory that Spark is about to read."""
        self._locations.add(location)

    def forget(self) -> None:
        """Remove the logs of all directories from Spark's memory."""
        java = self._session._jvm
        assert java is not None  # noqa: S101  the session was used
        while self._locations:
            path = java.org.apache.hadoop.fs.Path(self._locations.pop())
            try:
                java.org.apache.spark.sql.delta.DeltaLog.invalidateCache(
                    self._session._jsparkSession, path
                )
            except Exception as error:  # noqa: BLE001  the transaction has ended; memory is all that is at stake
                _LOG.debug("Spark keeps the log of %s in memory: %s", path, error)
