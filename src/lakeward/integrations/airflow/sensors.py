"""Sensors for new versions and for fresh data; a deferred sensor waits without a worker."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator

from lakeward.integrations.airflow.hook import DEFAULT
from lakeward.integrations.airflow.triggers import (
    LakewardFreshnessTrigger,
    LakewardVersionTrigger,
    fresh_age,
    newest,
)
from lakeward.model.duration import to_milliseconds


class LakewardVersionSensor(BaseSensorOperator):
    """Waits until a table has a version newer than `after`, and returns the newest version.

    Args:
        table: The table.
        after: Wait for a version newer than this; -1 for any version.
        lake_conn_id: The connection of the lake.
        deferrable: Whether to wait in the triggerer instead of a worker.
        **kwargs: The arguments of every sensor; `poke_interval` is the pause between two polls,
            and `timeout` is the longest wait in seconds, also of a deferred sensor.
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
        """Return whether the table has a version newer than `after`."""
        return newest(self.lake_conn_id, self.table) > self.after

    def execute(self, context: Any) -> int:
        """Wait, in a worker or deferred."""
        if self.deferrable and not self.poke(context):
            trigger = LakewardVersionTrigger(
                self.table, self.after, self.lake_conn_id, float(self.poke_interval)
            )
            self.defer(
                trigger=trigger,
                method_name="resume",
                timeout=timedelta(seconds=float(self.timeout)),
            )
        if not self.deferrable:
            super().execute(context)
        return newest(self.lake_conn_id, self.table)

    def resume(self, context: Any, event: Any) -> int:  # noqa: ARG002  Airflow's contract
        """Return the value that the trigger fired with."""
        return int(event)


class LakewardFreshnessSensor(BaseSensorOperator):
    """Waits until data of a table was changed at most `max_age` ago; returns its age in seconds.

    Args:
        table: The table.
        max_age: The age up to which data is fresh, such as `1 hour`.
        lake_conn_id: The connection of the lake.
        deferrable: Whether to wait in the triggerer instead of a worker.
        **kwargs: The arguments of every sensor; `poke_interval` is the pause between two polls,
            and `timeout` is the longest wait in seconds, also of a deferred sensor.
    """

    template_fields: ClassVar[Sequence[str]] = ("table", "max_age")

    def __init__(
        self,
        *,
        table: str,
        max_age: str,
        lake_conn_id: str = DEFAULT,
        deferrable: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        to_milliseconds(max_age, "max_age")
        self.table = table
        self.max_age = max_age
        self.lake_conn_id = lake_conn_id
        self.deferrable = deferrable

    def poke(self, context: Any) -> bool:  # noqa: ARG002  Airflow's contract
        """Return whether data was changed at most `max_age` ago."""
        return self._age() is not None

    def execute(self, context: Any) -> float:
        """Wait, in a worker or deferred."""
        age = self._age()
        if age is None and self.deferrable:
            trigger = LakewardFreshnessTrigger(
                self.table, self.max_age, self.lake_conn_id, float(self.poke_interval)
            )
            self.defer(
                trigger=trigger,
                method_name="resume",
                timeout=timedelta(seconds=float(self.timeout)),
            )
        if age is None:
            super().execute(context)
            age = self._age()
        return 0.0 if age is None else age

    def resume(self, context: Any, event: Any) -> float:  # noqa: ARG002  Airflow's contract
        """Return the value that the trigger fired with."""
        return float(event)

    def _age(self) -> float | None:
        return fresh_age(self.lake_conn_id, self.table, self.max_age)
