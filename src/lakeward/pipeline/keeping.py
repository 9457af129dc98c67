"""Stores the bundles of runs in the log and in files; a committed run is never stored as failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.log import renames, runs
from lakeward.log.runs import Run
from lakeward.model.clock import now_ms
from lakeward.pipeline import bundle
from lakeward.pipeline.bundle import Progress

_LOG: Final = logging.getLogger(__name__)


def row_of(progress: Progress, state: str, known: Mapping[str, Any]) -> Run:
    """Return a run's row of the log."""
    full = {**known, "state": state}
    return Run(progress.run_id, progress.pipeline.name, state, progress.started_ms, now_ms(), full)


def keep_completed(
    context: LakeContext, progress: Progress, known: Mapping[str, Any], versions: Mapping[str, int]
) -> tuple[Run, str | None]:
    """Store the complete bundle of a committed run; return its row, and the path of its file.

    The run is committed, and the log has its bundle of before the commit. So an error is logged and
    not raised, and the path is None.
    """
    try:
        seconds = time.monotonic() - progress.began
        row = row_of(progress, "ratified", bundle.completed(known, context, versions, seconds))
        return row, _keep(context, row)
    except Exception as error:  # noqa: BLE001  the run is committed, whatever fails now
        what = "Run %s is committed, and its complete bundle could not be stored: %s: %s"
        _LOG.warning(what, progress.run_id, type(error).__name__, error)
        return row_of(progress, "ratified", known), None


def keep_failed(
    context: LakeContext, progress: Progress, engines: Mapping[str, str], error: BaseException
) -> None:
    """Store the bundle of a run that raised an error; if that fails, add a note to the error.

    If the run was committed all the same, record its versions in `progress` instead.
    """
    full = bundle.failed(bundle.known(progress, {}, engines), progress, error)
    try:
        if _keep(context, row_of(progress, "failed", full)) is None:
            with context.database.read() as session:
                found = renames.members(session, progress.run_id)
            progress.versions = {name: version for name, (version, _) in found.items()}
    except Exception as other:  # noqa: BLE001  the store may be what failed
        error.add_note(f"The run's bundle could not be kept: {type(other).__name__}: {other}")


def _keep(context: LakeContext, row: Run) -> str | None:
    """Write a bundle to the log and to a file; return the file's path.

    Return None and write nothing if the bundle is one of failure and the run is committed.
    """
    with context.database.write() as session:
        runs.put(session, row)
        stored = runs.one(session, row.run_id)
        if stored is not None and stored.state != row.state:
            return None
    path = f"_lakeward/runs/{bundle.file_name(row)}"
    context.storage.put(path, bundle.text(row.bundle))
    return path
