"""Triggers that wait for changes of a lake in Airflow's triggerer, without occupying a worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from airflow.triggers.base import BaseEventTrigger, BaseTrigger, TriggerEvent

import lakeward as lw
from lakeward.errors import Conflict
from lakeward.integrations.airflow.hook import LakewardHook
from lakeward.lake.records import LakeChange
from lakeward.model.duration import to_milliseconds
from lakeward.stream.consumer import Consumer


class LakewardVersionTrigger(BaseTrigger):
    """Fires when a table has a version newer than `after`; the event has the newest version."""

    def __init__(self, table: str, after: int, lake_conn_id: str, poll_seconds: float) -> None:
        super().__init__()
        self.table = table
        self.after = after
        self.lake_conn_id = lake_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path of the class, and the arguments to construct it again."""
        return _serialized(self, "table", "after", "lake_conn_id", "poll_seconds")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the table until it has a newer version; yield one event with the version."""
        while True:
            version = await asyncio.to_thread(newest, self.lake_conn_id, self.table)
            if version > self.after:
                yield TriggerEvent(version)
                return
            await asyncio.sleep(self.poll_seconds)


class LakewardFreshnessTrigger(BaseTrigger):
    """Fires when a table's data changed at most `max_age` ago; the event has the age in seconds."""

    def __init__(self, table: str, max_age: str, lake_conn_id: str, poll_seconds: float) -> None:
        super().__init__()
        self.table = table
        self.max_age = max_age
        self.lake_conn_id = lake_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path of the class, and the arguments to construct it again."""
        return _serialized(self, "table", "max_age", "lake_conn_id", "poll_seconds")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the table until its data is fresh; yield one event with the age in seconds."""
        while True:
            age = await asyncio.to_thread(fresh_age, self.lake_conn_id, self.table, self.max_age)
            if age is not None:
                yield TriggerEvent(age)
                return
            await asyncio.sleep(self.poll_seconds)


class LakewardCommitTrigger(BaseEventTrigger):
    """Fires for commits of any program to a table, as long as an asset is watched.

    The lake stores the position of the last event as the position of a consumer with the name
    `airflow:<connection>:<table>`, so after a restart of the triggerer the trigger fires for
    commits after that position. For several commits between two polls it fires once, with the
    newest version. Installations of Airflow that watch one lake need different names of the
    connection.
    """

    def __init__(self, table: str, lake_conn_id: str, poll_seconds: float) -> None:
        super().__init__()
        self.table = table
        self.lake_conn_id = lake_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the import path of the class, and the arguments to construct it again."""
        return _serialized(self, "table", "lake_conn_id", "poll_seconds")

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Poll the lake; yield an event when there are new commits to the table."""
        while True:
            found = await asyncio.to_thread(new_commits, self.lake_conn_id, self.table)
            if found is not None:
                yield TriggerEvent(described(self.table, found))
                await asyncio.to_thread(mark, self.lake_conn_id, self.table, found)
            await asyncio.sleep(self.poll_seconds)


def newest(lake_conn_id: str, table: str) -> int:
    """Return the newest version of a table."""
    with LakewardHook(lake_conn_id).get_conn() as lake:
        return lake.table(table).version


def fresh_age(lake_conn_id: str, table: str, max_age: str) -> float | None:
    """Return how many seconds ago a table's data was changed; None if more than `max_age`."""
    with LakewardHook(lake_conn_id).get_conn() as lake:
        age = lake.table(table).freshness()
    return age if age * 1000 <= to_milliseconds(max_age, "max_age") else None


def new_commits(lake_conn_id: str, table: str) -> LakeChange | None:
    """Return the newest commit to a table since the last `mark`, or None.

    The first call records the current position as the mark.
    """
    with LakewardHook(lake_conn_id).get_conn() as lake:
        found = None
        for change in _consumer(lake, lake_conn_id, table):
            found = change
    return found


def mark(lake_conn_id: str, table: str, change: LakeChange) -> None:
    """Record that events were sent for all commits up to `change`."""
    with LakewardHook(lake_conn_id).get_conn() as lake, suppress(Conflict):
        # In a conflict another triggerer has recorded it.
        _consumer(lake, lake_conn_id, table).done(change)


def described(table: str, change: LakeChange) -> dict[str, Any]:
    """Return a commit as plain values without rows, for the event of an asset."""
    # At the commit the table may have had another name.
    own = change.tables.get(table) or next(iter(change.tables.values()))
    return {
        "table": table,
        "version": own.version,
        "operation": own.operation,
        "transaction_id": change.transaction_id,
        "actor": change.actor,
        "timestamp": change.timestamp.isoformat(),
    }


def _consumer(lake: lw.Lake, lake_conn_id: str, table: str) -> Consumer:
    name = f"airflow:{lake_conn_id}:{table}"
    is_known = any(known.name == name for known in lake.consumers())
    since = None if is_known else datetime.now(UTC)
    return lake.consumer(name, tables=[table], since=since)


def _serialized(trigger: BaseTrigger, *names: str) -> tuple[str, dict[str, Any]]:
    path = f"{type(trigger).__module__}.{type(trigger).__qualname__}"
    return path, {name: getattr(trigger, name) for name in names}
