"""How often and how patiently a transaction is run again after a conflict.

A caller says it for one call, a table for everybody: its properties hold for conflicts over it when
the caller says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model import arguments

PROPERTIES: Final = {
    "attempts": "lakeward.retry.attempts",
    "first_delay_seconds": "lakeward.retry.firstDelaySeconds",
    "longest_delay_seconds": "lakeward.retry.longestDelaySeconds",
    "jitter": "lakeward.retry.jitter",
}


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently a transaction is run again after a conflict.

    Attributes:
        attempts: At most so many, the first one included.
        first_delay_seconds: How long to wait before the second attempt; it doubles from there.
        longest_delay_seconds: It never gets longer than this.
        jitter: Which share of each delay is left to chance, so that those who met do not meet
            again: 0 for none, 1 for all of it.
    """

    attempts: int = 20
    first_delay_seconds: float = 0.01
    longest_delay_seconds: float = 2.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        arguments.whole(self.attempts, "attempts", least=1)
        arguments.number(self.first_delay_seconds, "first_delay_seconds")
        arguments.number(self.longest_delay_seconds, "longest_delay_seconds")
        if arguments.number(self.jitter, "jitter") > 1:
            what = f"`jitter` must be a share from 0 to 1; it is {self.jitter!r}."
            raise InvalidInput(what, parameter="jitter")

    def delay(self, attempt: int) -> float:
        """Seconds to wait after an attempt, counted from 1, has failed."""
        # Beyond this many doublings the longest delay holds, whatever the first one was.
        full = min(
            self.first_delay_seconds * 2.0 ** min(attempt - 1, 64), self.longest_delay_seconds
        )
        return full * (1 - self.jitter * random.random())  # noqa: S311  no secret depends on it

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Retry:
        """Read a table's properties; a value that makes no sense is an `InvalidInput`."""
        found = cls()
        for name, key in PROPERTIES.items():
            text = properties.get(key)
            if text is None:
                continue
            try:
                value = int(text) if name == "attempts" else float(text)
                changed: dict[str, Any] = {name: value}
                found = replace(found, **changed)
            except ValueError as error:
                what = f"Property {key} is {text!r}."
                hint = "Use a number that is not negative; at least 1 attempt, at most jitter 1."
                raise InvalidInput(what, hint=hint, property=key) from error
        return found
