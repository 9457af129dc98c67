"""PostgreSQL notifications, by which a commit wakes followers of the lake.

They are sent after the commit, in a separate transaction: PostgreSQL serializes the commits of
transactions that notify, and commits of tables must not wait for each other. None is sent while
there are no followers. A lost notification only delays a follower, which polls every second anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lakeward.log.database import Waiter

if TYPE_CHECKING:
    import psycopg

_LOOK_SECONDS: Final = 1.0
_OID: Final = "CAST(CAST('lakeward_position' AS regclass) AS oid)"
_FOLLOW: Final = f"SELECT pg_advisory_lock_shared({_OID}::int4, -1), {_OID}::text"
_FOLLOWED: Final = f"""SELECT 1 FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 2 AND objid::bigint = 4294967295
    AND classid = {_OID}
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) LIMIT 1"""  # noqa: S608  our names
_TELL: Final = f"""BEGIN; SET LOCAL synchronous_commit = off;
    SELECT pg_notify('lakeward_' || {_OID}::text, ''); COMMIT"""


class Notices:
    """Notifies followers of commits; checks once a second whether there are any."""

    def __init__(self) -> None:
        self._is_followed = False
        self._look_at = 0.0

    def committed(self, connection: psycopg.Connection[Any]) -> None:
        """Notify followers of a commit, on a connection that is not in a transaction."""
        now = time.monotonic()
        if now >= self._look_at:
            self._is_followed = connection.execute(_FOLLOWED).fetchone() is not None
            self._look_at = now + _LOOK_SECONDS
        if self._is_followed:
            connection.execute(_TELL)


class NoticeWaiter(Waiter):
    """Waits for notifications on its own connection."""

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        driver: Any,
        translate: Callable[[Exception], Exception],
    ) -> None:
        self._connection = connection
        self._driver = driver
        self._translate = translate
        row = connection.execute(_FOLLOW).fetchone()
        channel = row[1] if row else ""
        connection.execute(f"LISTEN lakeward_{channel}")

    def wait(self, seconds: float) -> None:
        """Wait for a notification, at most one second."""
        try:
            told = self._connection.notifies(timeout=min(seconds, _LOOK_SECONDS), stop_after=1)
            for _ in told:
                pass
        except self._driver.Error as error:
            raise self._translate(error) from error

    def close(self) -> None:
        """Close the connection, which also ends the subscription."""
        with suppress(self._driver.Error):
            self._connection.close()
