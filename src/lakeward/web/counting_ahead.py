"""Counts the files of all tables in the background when the service starts.

Pages show totals that are brought up from those of an older version. Without one, the first page
of a table counts all its files, which takes a second of CPU time for a million files.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from lakeward.errors import LakewardError

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

_LOG: Final = logging.getLogger("lakeward.web")


def count_all(lake: Lake, stopping: Callable[[], bool]) -> None:
    """Count files, bytes, rows and sizes of all tables, until the service stops."""
    try:
        tables = lake.tables()
    except LakewardError:
        # Pages count by themselves, and show the error.
        _LOG.info("The files of the tables could not be counted at the start.")
        return
    for table in tables:
        if stopping():
            return
        try:
            table.at().info()
            table.file_sizes()
        except LakewardError:  # such as of a table that was dropped meanwhile
            _LOG.info("The files of a table could not be counted at the start.")


@contextmanager
def counting(lake: Lake, stopping: Callable[[], bool]) -> Generator[None]:
    """Count in a thread while the block runs; wait for it at the end, before the lake closes."""
    is_over = threading.Event()
    thread = threading.Thread(
        target=count_all,
        args=(lake, lambda: is_over.is_set() or stopping()),
        name="lakeward-count",
        daemon=True,
    )
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
