"""Finds the files of a `_delta_log` that readers of newer versions do not need.

Commits count as not needed only if a later checkpoint could be read and has as many files as the
log has at its version: a checkpoint that is damaged, or lacks sidecars, replaces no commits.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from lakeward.errors import LakewardError
from lakeward.formats.delta.checkpoint import SIDECARS
from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.formats.delta.restore import State, sidecars_of, state_of
from lakeward.formats.delta.segment import Checkpoint, segment_of
from lakeward.storage.base import Storage

_NUMBERED: Final = re.compile(
    r"(\d{20})(?:\.(\d{20})\.compacted)?\.(?:json|crc|checkpoint\.[\w.-]*(?:parquet|json))$"
)
"""Names of commits, compacted commits, checksums and checkpoints."""
_MARGIN_MS: Final = 3_600_000
"""Sidecars this much older than the oldest kept checkpoint cannot belong to one being written."""
Count = Callable[[int], int | None]
"""Returns the number of files of a version in the log; None if the log has it no longer."""


def old_files(storage: Storage, location: str, oldest: int, count: Count) -> tuple[list[str], int]:
    """Return log files, relative to the table's directory, that no version from `oldest` on needs.

    Also returns the version of the checkpoint that replaces them, or 0.
    """
    found = segment_of(storage, location).checkpoints
    known = (c for c in reversed(found) if c.version <= oldest)
    start = next((c for c in known if _is_sound(storage, location, c, count)), None)
    if start is None:
        return [], 0
    names = []
    for entry in storage.listing(f"{location}/{LOG_DIRECTORY}"):
        name = entry.path.rpartition("/")[2]
        numbered = _NUMBERED.match(name)
        if numbered is not None and int(numbered[2] or numbered[1]) < start.version:
            names.append(f"{LOG_DIRECTORY}/{name}")
    kept = [c for c in found if c.version >= start.version]
    return sorted(names) + _unused_sidecars(storage, location, kept, start), start.version


def _is_sound(storage: Storage, location: str, checkpoint: Checkpoint, count: Count) -> bool:
    """Return whether a checkpoint can be read and lists as many files as the log has."""
    try:
        state = state_of(storage, location, checkpoint)
    except LakewardError:
        return False
    expected = count(checkpoint.version)
    return expected is None or _files(state) == expected


def _files(state: State) -> int:
    return len(state.actions.adds) + sum(len(rows) for rows in state.columns)


def _unused_sidecars(
    storage: Storage, location: str, kept: list[Checkpoint], start: Checkpoint
) -> list[str]:
    """Return the old sidecars that no kept checkpoint refers to; none if one is unreadable."""
    directory = f"{LOG_DIRECTORY}/{SIDECARS}"
    listed = {
        e.path.rpartition("/")[2]: e.modified_ms for e in storage.listing(f"{location}/{directory}")
    }
    if not listed:
        return []
    try:
        used = {name for c in kept for name in sidecars_of(storage, location, c)}
    except LakewardError:
        return []
    latest = start.modified_ms - _MARGIN_MS
    return sorted(f"{directory}/{n}" for n, at in listed.items() if n not in used and at < latest)
