"""Notices: what a run left out or changed, which is no error but which a user must see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

SAMPLE: Final = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of a run's report.

    Attributes:
        kind: What it is about, for programs: `files_not_taken`, `rows_superseded`, …
        table: The table of the step.
        message: What happened, for people.
        count: How many files, columns or rows.
        sample: Some of their names.
    """

    kind: str
    table: str
    message: str
    count: int
    sample: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The notice as plain JSON values."""
        return {
            "kind": self.kind,
            "table": self.table,
            "message": self.message,
            "count": self.count,
            "sample": list(self.sample),
        }


def named(names: Sequence[str]) -> str:
    """Some names and how many more there are, for a message."""
    shown = ", ".join(names[:SAMPLE])
    more = len(names) - SAMPLE
    return f"{shown} and {more:,} more" if more > 0 else shown


def counted(count: int, noun: str) -> str:
    """A number with its noun: `1 row`, `2 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
