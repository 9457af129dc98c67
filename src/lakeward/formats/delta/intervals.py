"""Decides when a checkpoint is worth its cost.

A checkpoint has a row for every live file, and saves a reader from replaying the commits since the
previous checkpoint. If one is written when the number of those commits reaches a fixed fraction of
the number of files, the total cost of all checkpoints grows with the table and not with the square
of its number of commits.
"""

from __future__ import annotations

from typing import Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import FileMissing
from lakeward.log import files
from lakeward.model.commit import Head

_FILES_PER_COMMIT: Final = 20
"""A checkpoint is due if it lists at most so many files per commit since the previous one."""


class _Last:
    """The version of the newest checkpoint of each table, by table id."""

    def __init__(self) -> None:
        self.versions: dict[int, int] = {}


def pays_off(context: LakeContext, head: Head, version: int) -> bool:
    """Return whether enough was committed since the last checkpoint to write one at `version`."""
    since = version - _last(context, head)
    if since <= 0:
        return False
    with context.database.read() as session:
        return files.are_at_most(session, head.table_id, version, since * _FILES_PER_COMMIT)


def note(context: LakeContext, head: Head, version: int) -> None:
    """Record that a checkpoint was written."""
    known = context.cache(_Last).versions
    known[head.table_id] = max(version, known.get(head.table_id, -1))


def last_checkpoint(context: LakeContext, head: Head) -> int | None:
    """Return the version of the newest checkpoint, according to the file `_last_checkpoint`."""
    # Loads Arrow, which only commits with a due checkpoint need.
    from lakeward.formats.delta.checkpoint import last_checkpoint_path

    try:
        text = context.storage.read(last_checkpoint_path(head.location))
        return int(orjson.loads(text)["version"])
    except (FileMissing, KeyError, TypeError, ValueError):
        return None


def _last(context: LakeContext, head: Head) -> int:
    known = context.cache(_Last).versions
    if head.table_id not in known:
        known[head.table_id] = last_checkpoint(context, head) or 0
    return known[head.table_id]
