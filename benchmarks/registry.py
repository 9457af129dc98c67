"""All benchmarks by name, in the order in which they run."""

from __future__ import annotations

from benchmarks import append, concurrent
from benchmarks.result import Benchmark

BENCHMARKS: dict[str, Benchmark] = {
    "append": append.run,
    "concurrent": concurrent.run,
}
