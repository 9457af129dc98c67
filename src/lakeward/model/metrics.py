"""Metrics of a lake as data: names, labels and values, in the model of Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

OTHER: Final = "other"
"""The value of a label that combines all values that are not shown separately."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a metric.

    Attributes:
        labels: Names and values of the labels.
        value: The value.
        suffix: What follows the metric's name: `_bucket`, `_count` and `_sum` of histograms.
    """

    labels: Mapping[str, str]
    value: float
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with its values.

    Attributes:
        name: As in Prometheus, without `_total`.
        kind: `counter`, `gauge` or `histogram`.
        help: What the metric measures.
        samples: The values.
    """

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class LakeMetrics:
    """All metrics of a lake at one point in time."""

    taken: datetime
    metrics: tuple[Metric, ...] = field(default=())


class Bounded:
    """Samples of a metric by a label, with a limit on how many values the label can have.

    The caller names the values in `shown`. Samples of all other values are combined into one with
    the value `other`: their sum, or with `greatest` their maximum.
    """

    def __init__(self, shown: Collection[str], *, greatest: bool = False) -> None:
        self._shown = shown
        self._greatest = greatest
        self._values: dict[tuple[tuple[str, str], ...], float] = {}

    def add(self, label: str, name: str, value: float, **more: str) -> None:
        """Add a value under its label, or under `other` if the label is not in `shown`."""
        own = name if name in self._shown else OTHER
        key = ((label, own), *sorted(more.items()))
        old = self._values.get(key)
        if old is None:
            self._values[key] = value
        else:
            self._values[key] = max(old, value) if self._greatest else old + value

    def samples(self) -> tuple[Sample, ...]:
        """Return the combined values as samples, sorted by their labels."""
        return tuple(Sample(dict(key), value) for key, value in sorted(self._values.items()))


def gauge(name: str, about: str, samples: Iterable[Sample] | float) -> Metric:
    """Return a metric whose value goes up and down."""
    return Metric(name, "gauge", about, _samples(samples))


def counter(name: str, about: str, samples: Iterable[Sample] | float) -> Metric:
    """Return a metric whose value only grows while a process lives."""
    return Metric(name, "counter", about, _samples(samples))


def _samples(given: Iterable[Sample] | float) -> tuple[Sample, ...]:
    return (Sample({}, given),) if isinstance(given, int | float) else tuple(given)
