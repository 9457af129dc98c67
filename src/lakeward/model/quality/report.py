"""Measurements of a table's expectations, by version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Measurement:
    """One expectation, measured for one version.

    Attributes:
        name: The expectation's name.
        measure: What was measured.
        wanted: What is expected, in words.
        version: The version of the table.
        value: The measured value; None if there is none, and then `reason` says why.
        passed: Whether the value is as expected; None if that is not known.
        origin: `log` if the log's statistics were enough, `files` if data files were read, or
            `query`.
        measured: When it was measured.
        reason: Why there is no value.
    """

    name: str
    measure: str
    wanted: str
    version: int
    value: float | None
    passed: bool | None
    origin: str
    measured: datetime
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Quality:
    """How well the data of a table meets its expectations.

    Attributes:
        table: The table's name.
        version: The version that was measured.
        measurements: One for each expectation of the table.
        series: For each expectation, its measurements over the versions, oldest first.
    """

    table: str
    version: int
    measurements: tuple[Measurement, ...]
    series: Mapping[str, tuple[Measurement, ...]]

    @property
    def passed(self) -> bool:
        """Whether no measurement failed; those without a value do not count."""
        return all(m.passed is not False for m in self.measurements)

    @property
    def failed(self) -> tuple[Measurement, ...]:
        """The measurements whose value is not as expected."""
        return tuple(m for m in self.measurements if m.passed is False)
