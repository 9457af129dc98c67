"""A sensor that waits for a new version of a table; deferred, it takes no worker meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, ClassVar, Final

from airflow.sdk import BaseSensorOperator
from airflow.triggers.base import BaseTrigger, TriggerEvent

from lakeward.integrations.airflow.hook import DEFAULT, LakewardHook

_POLL_SECONDS: Final = 30.0


class LakewardVersionTrigger(BaseTrigger):
    """Fires when a table has a version beyond one."""

    def __init__(self, table: str, after: int, lake_conn_id: str, poll_seconds: float) -> None:
        super().__init__()
        self.table = table
        self.after = after
        self.lake_conn_id = lake_conn_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Where the class is, and what it was made of."""
        names = ("table", "after", "lake_conn_id", "poll_seconds")
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in names}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Look at the table until it has a newer version."""
        while True:
            version = await asyncio.to_thread(newest, self.lake_conn_id, self.table)
            if version > self.after:
                yield TriggerEvent(version)
                return
            await asyncio.sleep(self.poll_seconds)


class LakewardVersionSensor(BaseSensorOperator):
    """Waits until a table has a version beyond `after`, and returns the version.

    Args:
        table: The table.
        after: The version that is known already; -1 for any.
        lake_conn_id: The connection of the lake.
        deferrable: Whether to wait in the triggerer.
        **kwargs: As in every sensor.
    """

    template_fields: ClassVar[Sequence[str]] = ("table",)

    def __init__(
        self,
        *,
        table: str,
        after: int = -1,
        lake_conn_id: str = DEFAULT,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.after = after
        self.lake_conn_id = lake_conn_id
        self.deferrable = deferrable

    def poke(self, context: Any) -> bool:  # noqa: ARG002  Airflow's contract
        """Whether there is such a version."""
        return newest(self.lake_conn_id, self.table) > self.after

    def execute(self, context: Any) -> int:
        """Wait, in a worker or deferred."""
        if self.deferrable and not self.poke(context):
            trigger = LakewardVersionTrigger(
                self.table, self.after, self.lake_conn_id, float(self.poke_interval)
            )
            self.defer(trigger=trigger, method_name="resume")
        if not self.deferrable:
            super().execute(context)
        return newest(self.lake_conn_id, self.table)

    def resume(self, context: Any, event: Any) -> int:  # noqa: ARG002  Airflow's contract
        """Go on after the trigger fired."""
        return int(event)


def newest(lake_conn_id: str, table: str) -> int:
    """The newest version of a table."""
    with LakewardHook(lake_conn_id).get_conn() as lake:
        return lake.table(table).version
