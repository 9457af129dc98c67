"""What a benchmark found: the times of each contender, and the promises they keep or miss."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How a run was asked for."""

    scratch: Path
    quick: bool

    def choose(self, full: int, quick: int) -> int:
        """A number of rounds, rows or files."""
        return quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Series:
    """The times that one contender took, in seconds, in the order of the rounds.

    Attributes:
        who: The contender.
        seconds: Those that count.
        calls: How often it did the work in all, where somebody asks.
    """

    who: str
    seconds: Sequence[float]
    calls: int = 0

    @property
    def rounds(self) -> int:
        """How many were counted."""
        return len(self.seconds)

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.seconds)

    @property
    def p99(self) -> float:
        """What one in a hundred exceeds; the worst when there are fewer."""
        return sorted(self.seconds)[math.ceil(0.99 * self.rounds) - 1]

    @property
    def worst(self) -> float:
        """The longest."""
        return max(self.seconds)

    def to_json(self) -> dict[str, Any]:
        """Plain values; times in seconds."""
        return {
            "who": self.who,
            "rounds": self.rounds,
            "median": self.median,
            "p99": self.p99,
            "worst": self.worst,
        }


@dataclass(frozen=True, slots=True)
class Quantity:
    """A measured value with its unit."""

    value: float
    unit: str = "s"


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise and what was measured of it.

    Attributes:
        what: In words.
        ours: Our side of it.
        floor: What is promised, in words.
        holds: Whether it was kept.
        peer: Whom it is compared with, if anybody.
        theirs: Their side of it.
        ratio: How many times better we are.
    """

    what: str
    ours: Quantity
    floor: str
    holds: bool
    peer: str | None = None
    theirs: Quantity | None = None
    ratio: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "what": self.what,
            "ours": _quantity(self.ours),
            "peer": self.peer,
            "theirs": None if self.theirs is None else _quantity(self.theirs),
            "ratio": self.ratio,
            "floor": self.floor,
            "holds": self.holds,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """One benchmark's findings.

    Attributes:
        name: What `--only` takes.
        title: What was done, in a line.
        series: Times per contender.
        claims: Promises with their verdicts.
        notes: What a reader must know to judge the numbers.
    """

    name: str
    title: str
    series: Sequence[Series]
    claims: Sequence[Claim]
    notes: Sequence[str] = field(default_factory=tuple)

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return all(c.holds for c in self.claims)

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "name": self.name,
            "title": self.title,
            "series": [s.to_json() for s in self.series],
            "claims": [c.to_json() for c in self.claims],
            "notes": list(self.notes),
        }


Benchmark = Callable[[Settings], Result]


def faster(what: str, ours: Series, theirs: Series, *, times: float) -> Claim:
    """Our median is so many times shorter than theirs."""
    ratio = theirs.median / ours.median
    return Claim(
        what,
        Quantity(ours.median),
        f"≥ {times:g}×",
        ratio >= times,
        theirs.who,
        Quantity(theirs.median),
        ratio,
    )


def within(what: str, ours: Series, theirs: Series, limit: float) -> Claim:
    """Our median takes at most so many times theirs."""
    ratio = ours.median / theirs.median
    return Claim(
        what,
        Quantity(ours.median),
        f"≤ {limit:g}× the time",
        ratio <= limit,
        theirs.who,
        Quantity(theirs.median),
        1 / ratio,
    )


def more(what: str, ours: Quantity, peer: str, theirs: Quantity, *, times: float) -> Claim:
    """Our rate is so many times theirs."""
    ratio = ours.value / theirs.value if theirs.value else math.inf
    return Claim(what, ours, f"≥ {times:g}×", ratio >= times, peer, theirs, ratio)


def below(what: str, ours: Quantity, limit: Quantity, limit_text: str) -> Claim:
    """Our value stays under a limit."""
    return Claim(what, ours, f"< {limit_text}", ours.value < limit.value)


def exactly(what: str, ours: int, wanted: int, unit: str = "") -> Claim:
    """Our count is what it must be."""
    return Claim(what, Quantity(ours, unit), f"= {wanted}", ours == wanted)


def _quantity(source: Quantity) -> dict[str, Any]:
    return {"value": source.value, "unit": source.unit}
