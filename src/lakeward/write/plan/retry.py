"""How often and with which delays a transaction is run again after a conflict.

A caller sets this for one call. Otherwise the properties of the table in which the conflict arose
apply.
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
    """How often and with which delays a transaction is run again after a conflict.

    Attributes:
        attempts: The largest number of attempts, including the first one.
        first_delay_seconds: The delay before the second attempt; it doubles with each attempt.
        longest_delay_seconds: The longest delay.
        jitter: The share of each delay that is random, so that transactions that conflicted do not
            conflict again: 0 for none, 1 for all of it.
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
        """Return the seconds to wait after an attempt, counted from 1, has failed."""
        # After this many doublings the longest delay applies, whatever the first one was.
        full = min(
            self.first_delay_seconds * 2.0 ** min(attempt - 1, 64), self.longest_delay_seconds
        )
        return full * (1 - self.jitter * random.random())  # noqa: S311  no secret depends on it

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Retry:
        """Return the retry settings in a table's properties; raise `InvalidInput` if invalid."""
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
