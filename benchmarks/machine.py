"""The machine and the versions that numbers belong to; no host names and no paths."""

from __future__ import annotations

import os
import platform
import re
import sqlite3
import statistics
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any


def describe(scratch: Path) -> dict[str, Any]:
    """Cores, memory, file system, how long a sync takes there, and what runs on it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "file_system": file_system(scratch),
        "create_and_sync_ms": round(_sync_seconds(scratch) * 1000, 3),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("lakeward", "pyarrow", "deltalake")},
        "duckdb": _pinned("duckdb"),
    }


def file_system(place: Path) -> str:
    """The type of file system that holds a directory."""
    try:
        lines = Path("/proc/self/mounts").read_text().splitlines()
    except OSError:
        return "unknown"
    mounts = {fields[1]: fields[2] for fields in map(str.split, lines)}
    home = place.resolve()
    for directory in (home, *home.parents):
        if str(directory) in mounts:
            return mounts[str(directory)]
    return "unknown"


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1].strip() if found else platform.processor() or "unknown"


def _sync_seconds(scratch: Path) -> float:
    times = []
    probes = scratch / "probes"
    probes.mkdir()
    for number in range(50):
        path = probes / str(number)
        started = perf_counter()
        with path.open("wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        times.append(perf_counter() - started)
    return statistics.median(times)


def _pinned(name: str) -> str:
    """The version in the peers' environment, which is not ours."""
    pins = Path(__file__).resolve().parent.parent / "requirements" / "peers.txt"
    found = re.search(rf"^{name}==([\w.]+)", pins.read_text(), re.MULTILINE)
    return found[1] if found else "unknown"
