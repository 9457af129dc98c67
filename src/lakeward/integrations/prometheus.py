"""Metrics of a lake for Prometheus.

`LakeCollector` is registered with a registry of `prometheus-client`, and reads the lake's metrics
whenever the registry is scraped. `exposition` returns the metrics as text, and `write_textfile`
writes that text for the textfile collector of node_exporter.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from lakeward.errors import MissingExtra
from lakeward.model.metrics import LakeMetrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The content type of the text that `exposition` returns."""


class Measured(Protocol):
    """The type of an object that returns metrics, such as a lake."""

    def metrics(self, *, tables: int = 100, health: bool = False) -> LakeMetrics:
        """Return the lake's metrics now."""


class LakeCollector:
    """A collector: `prometheus_client.REGISTRY.register(LakeCollector(lake))`.

    Args:
        lake: The lake, which must stay open.
        tables: How many tables get a label each; the others are summed up.
        health: Whether to score the files of these tables with each scrape.
    """

    def __init__(self, lake: Measured, *, tables: int = 100, health: bool = False) -> None:
        _library()
        self._lake = lake
        self._tables = tables
        self._health = health

    def describe(self) -> list[Any]:
        """Return an empty list, so that registering does not read the lake's metrics."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the families of the lake's metrics now."""
        yield from families(self._lake.metrics(tables=self._tables, health=self._health))


def families(found: LakeMetrics) -> Iterator[Any]:
    """Yield metrics as metric families of `prometheus-client`."""
    kind = _library().metrics_core.Metric
    for metric in found.metrics:
        family = kind(metric.name, metric.help, metric.kind)
        total = "_total" if metric.kind == "counter" else ""
        for sample in metric.samples:
            family.add_sample(metric.name + (sample.suffix or total), sample.labels, sample.value)
        yield family


def exposition(found: LakeMetrics) -> str:
    """Return metrics in the text format of Prometheus."""
    library = _library()
    registry = library.CollectorRegistry(auto_describe=False)
    registry.register(_Once(found))
    text: bytes = library.generate_latest(registry)
    return text.decode()


def write_textfile(found: LakeMetrics, path: str | Path) -> None:
    """Write metrics as text to a file, atomically: a reader sees the old file or the new one."""
    target = Path(path)
    number, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(exposition(found))
        os.chmod(name, 0o644)  # noqa: PTH101  the collector runs as another user
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _Once:
    """A collector that returns given metrics."""

    def __init__(self, found: LakeMetrics) -> None:
        self._found = found

    def collect(self) -> Iterator[Any]:
        yield from families(self._found)


def _library() -> Any:
    try:
        import prometheus_client
        import prometheus_client.metrics_core
    except ImportError as error:
        what = "Metrics for Prometheus need prometheus-client."
        hint = "Run: pip install 'lakeward[prometheus]'. `lakeward metrics --json` needs nothing."
        raise MissingExtra(what, hint=hint) from error
    return prometheus_client
