"""Rounds: every contender gets a turn a round, and each round begins with another one."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from time import perf_counter

from benchmarks.result import Series

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

    A turn of several begins with one that is not counted, so that nobody pays for caches which
    another has filled.

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
    for number in range(warm_up + rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if writes:
                os.sync()
            if turn > 1:
                contenders[name]()
            taken = [contenders[name]() for _ in range(turn)]
            if number >= warm_up:
                times[name].extend(taken)
    return [Series(name, times[name]) for name in names]


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


def check_arrived(counts: set[int | None], wanted: int) -> None:
    """Refuse times of a run in which rows got lost, or arrived twice."""
    if counts != {wanted}:
        message = f"not every row arrived: {counts}, not {wanted}"
        raise RuntimeError(message)
