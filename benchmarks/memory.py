"""The peak of memory of work that a process of its own does."""

from __future__ import annotations

import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[Path], None]


def peak_of(work: Work, place: Path) -> float:
    """The most that a process which does nothing else ever held, in megabytes."""
    context = multiprocessing.get_context("spawn")
    answers: Any = context.SimpleQueue()
    worker = context.Process(target=_alone, args=(work, place, answers))
    worker.start()
    worker.join()
    if worker.exitcode:
        message = f"the process ended with {worker.exitcode}"
        raise RuntimeError(message)
    return float(answers.get())


def _alone(work: Work, place: Path, answers: Any) -> None:
    work(place)
    answers.put(_peak_mb())


def _peak_mb() -> float:
    """Of this program alone; `getrusage` may count the one that started it."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", text)
    if found is None:
        message = "the kernel does not tell the peak of memory"
        raise RuntimeError(message)
    return int(found[1]) / 1024
