"""Syncing what others leave to the operating system.

deltalake syncs neither its data files nor its log. DuckLake syncs its catalog and not its data
files. Lakeward syncs before a commit returns, so the peers' commits are made as safe here, and
the time that takes is theirs. Finding out which files are new is not counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter


def sync_new(files: Iterable[Path]) -> float:
    """Sync new files and the directories that hold their names; the seconds it took."""
    paths = list(files)
    directories = {path.parent for path in paths}
    started = perf_counter()
    for path in (*paths, *directories):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    return perf_counter() - started
