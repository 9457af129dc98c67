"""How much the log holds, of all tables and versions."""

from __future__ import annotations

from dataclasses import dataclass

from lakeward.log import commits, files, heads
from lakeward.log.database import Session


@dataclass(frozen=True, slots=True)
class Stats:
    """How much the log holds, of all tables and versions."""

    tables: int
    versions: int
    entries: int


def stats(session: Session) -> Stats:
    """The numbers as they are now."""
    versions = commits.count(session)
    return Stats(
        tables=len(heads.all_heads(session)),
        versions=versions,
        entries=versions + files.count(session),
    )
