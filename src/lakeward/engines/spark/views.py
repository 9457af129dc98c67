"""Temporary views of the user's session, brought into a transaction's session when they are needed.

The transaction's session begins as a copy of the user's. Views that the user makes or replaces
later are looked up by name when a statement mentions them. A view that was made in the
transaction's own session hides one of the same name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakeward.model.quoting import identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """The temporary views that a transaction's session has."""

    def __init__(self, user: SparkSession, session: SparkSession) -> None:
        self._user = user
        self._session = session
        # Of each view that was taken over: the user's when that was done, and what it became.
        self._taken: dict[str, tuple[Any, Any]] = {}
        self._copied = _catalog(session).tempViews().clone()

    def has(self, name: str) -> bool:
        """Whether statements see a temporary view of this name; the user's newest is taken over."""
        theirs = _catalog(self._user).getRawTempView(name)
        ours = _catalog(self._session).getRawTempView(name)
        if theirs.isDefined() and self._is_older(name, theirs.get(), ours):
            take(self._session, self._user.table(identifier(name)), name)
            now = _catalog(self._session).getRawTempView(name).get()
            self._taken[name.lower()] = (theirs.get(), now)
            return True
        return bool(ours.isDefined())

    def _is_older(self, name: str, theirs: Any, ours: Any) -> bool:
        """Whether the user made or replaced the view since it was taken over."""
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
    """Give the rows of a frame, of any session of the same Spark, a name in a session."""
    jvm: Any = session._jvm
    plan = frame._jdf.queryExecution().analyzed()
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan)
    rows.createOrReplaceTempView(name)


def _catalog(session: SparkSession) -> Any:
    return session._jsparkSession.sessionState().catalog()
