"""Identity columns: the lake gives each new row the next value of a series of whole numbers.

The values are `start`, `start + step`, `start + 2 * step` and so on. The place of a value is its
position in the series, from 0. A mark is the value that is furthest in the direction of `step`: no
value up to the mark is assigned again. No value is assigned twice, and there may be gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.model.values import MAX_KEY, MIN_KEY


@dataclass(frozen=True, slots=True)
class Identity:
    """The series of values of an identity column.

    Attributes:
        start: The first value.
        step: The difference between a value and the next; not 0.
        explicit: Whether data may contain values for the column.
    """

    start: int = 1
    step: int = 1
    explicit: bool = False

    def value(self, place: int) -> int:
        """Return the value at a place."""
        return self.start + place * self.step

    def place_after(self, mark: int) -> int:
        """Return the first place whose value is beyond a mark."""
        return max(0, (mark - self.start) // self.step + 1)

    def furthest(self, *marks: int) -> int:
        """Return the mark that is furthest in the direction of the step."""
        return max(marks) if self.step > 0 else min(marks)

    def holds(self, place: int) -> bool:
        """Return whether the value at a place is a whole number of 64 bits."""
        return MIN_KEY <= self.value(place) <= MAX_KEY

    def check(self, column: str) -> Identity:
        """Return the identity, if it is valid.

        Raises `InvalidInput` if the step is 0, or if start or step exceed 64 bits.
        """
        if self.step == 0 or not (self.holds(0) and MIN_KEY <= self.step <= MAX_KEY):
            what = f"Column {column} cannot count from {self.start} in steps of {self.step}."
            hint = "The step is not 0, and both are whole numbers of 64 bits."
            raise InvalidInput(what, hint=hint, column=column)
        return self

    def to_json(self) -> list[Any]:
        """Return the identity as JSON values."""
        return [self.start, self.step, self.explicit]

    @classmethod
    def from_json(cls, source: list[Any]) -> Identity:
        """Return the identity for the values of `to_json`."""
        return cls(*source)

    def __str__(self) -> str:
        how = "by default" if self.explicit else "always"
        return f"generated {how} as identity (start with {self.start} increment by {self.step})"
