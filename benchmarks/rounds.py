"""Rounds: every contender gets a turn a round, and each round begins with another one."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from time import perf_counter

from benchmarks.result import Series

_WARM_SECONDS = 0.02

Contender = Callable[[], float]
"""Does the work once and says how many seconds it took."""


def interleave(
    contenders: Mapping[str, Contender],
    *,
    rounds: int,
    warm_up: int,
    turn: int = 1,
    writes: bool = False,
) -> list[Series]:
    """Let contenders take turns, so that whatever slows the machine slows all of them.

    A turn of several begins with a moment that is not counted, so that nobody pays for caches which
    another has filled: the same time for all, whether one does the work in it once or ten times.

    Args:
        contenders: By name.
        rounds: How many are counted.
        warm_up: How many go before and are not.
        turn: How often the work is done and counted in each turn.
        writes: Bring the disk to rest before each turn, so that nobody's sync writes what another
            left behind.
    """
    names = list(contenders)
    times: dict[str, list[float]] = {name: [] for name in names}
    calls = dict.fromkeys(names, 0)
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if writes:
                os.sync()
            if turn > 1:
                calls[name] += _warmed(contenders[name])
            taken = [contenders[name]() for _ in range(turn)]
            calls[name] += turn
            if number >= warm_up:
                times[name].extend(taken)
    return [Series(name, times[name], calls[name]) for name in names]


def _warmed(contender: Contender) -> int:
    """Let a contender work for a moment; how often it did."""
    began, count = perf_counter(), 0
    while perf_counter() - began < _WARM_SECONDS:
        contender()
        count += 1
    return count


def timed(action: Callable[[], object]) -> Contender:
    """A contender that is all of an action; what it returns is let go after the clock stops."""

    def once() -> float:
        gc.collect()
        started = perf_counter()
        kept = action()
        taken = perf_counter() - started
        del kept
        return taken

    return once


def by_name(series: list[Series]) -> dict[str, Series]:
    """Series by contender."""
    return {s.who: s for s in series}


def best(series: list[Series], who: str) -> Series:
    """The faster of a contender's ways, whose names begin with its own."""
    return min((s for s in series if s.who.startswith(who)), key=lambda s: s.median)


def check_arrived(found: object, wanted: object) -> None:
    """Refuse times of a run in which rows got lost, or arrived twice."""
    if found != wanted:
        message = f"not every row arrived: {found}, not {wanted}"
        raise RuntimeError(message)
