"""What was measured of a table's expectations, version by version."""

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
        value: What was measured; None where nothing could be, and `reason` says why.
        passed: Whether it is as expected; None where it is not known.
        origin: `log` if the log's statistics were enough, `files` if data files were read, or
            `query`.
        measured: When.
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
    """How good the data of a table is.

    Attributes:
        table: The table's name.
        version: The version that was measured.
        measurements: Each expectation of it.
        series: For each expectation, what was measured of it over the versions, oldest first.
    """

    table: str
    version: int
    measurements: tuple[Measurement, ...]
    series: Mapping[str, tuple[Measurement, ...]]

    @property
    def passed(self) -> bool:
        """Whether no expectation failed."""
        return all(m.passed is not False for m in self.measurements)

    @property
    def failed(self) -> tuple[Measurement, ...]:
        """The expectations that are not met."""
        return tuple(m for m in self.measurements if m.passed is False)
