"""Turns of a sink: some epochs of the same rows, waited for one by one or submitted."""

from __future__ import annotations

import itertools
from time import perf_counter

import pyarrow as pa

from lakeward.stream.sink import Sink


class Epochs:
    """A sink that writes the same rows as epoch after epoch.

    Args:
        sink: The sink.
        data: What an epoch has.
        turn: How many epochs make a turn.

    Attributes:
        commits: How long each commit that was waited for took.
    """

    def __init__(self, sink: Sink, data: pa.Table, turn: int) -> None:
        self._sink = sink
        self._data = data
        self._turn = turn
        self._numbers = itertools.count()
        self.commits: list[float] = []

    def one_by_one(self) -> float:
        """A turn in which each commit is waited for; the seconds of an epoch."""
        started = perf_counter()
        for _ in range(self._turn):
            self._sink.write(self._data)
            before = perf_counter()
            self._sink.commit_epoch(next(self._numbers))
            self.commits.append(perf_counter() - before)
        return (perf_counter() - started) / self._turn

    def submitted(self) -> float:
        """A turn in which only the last commit is waited for; the seconds of an epoch."""
        started = perf_counter()
        submitted = []
        for _ in range(self._turn):
            self._sink.write(self._data)
            submitted.append(self._sink.submit_epoch(next(self._numbers)))
        submitted[-1].result()
        return (perf_counter() - started) / self._turn
