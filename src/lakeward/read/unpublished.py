"""Finds committed versions whose published files are missing, and since when they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.formats.registry import publishers
from lakeward.log import heads, measures
from lakeward.model.commit import Head

_CHECKED: Final = 1000
"""How many tables one call checks for missing publications, the first ones given.

A table that is found published is not checked again before its next commit.
"""


@dataclass(frozen=True, slots=True)
class Unpublished:
    """A table with committed versions whose published files are missing.

    Attributes:
        versions: How many versions are not published.
        seconds: How long ago the first of them was committed.
    """

    table: str
    versions: int
    seconds: float


class _Published(dict[int, int]):
    """By table id: the newest version that is known to be published."""


def unpublished(context: LakeContext) -> list[Unpublished]:
    """Return the tables with versions that are not published."""
    with context.database.read() as session:
        now = context.database.clock_ms(session)
        found = heads.unpublished(session)
    return [one for one in publication(context, found, now) if one.versions]


def publication(context: LakeContext, tables: Sequence[Head], now: int) -> Iterator[Unpublished]:
    """Yield what is not published of each table; omit tables that were too many to check."""
    known, left = context.cache(_Published), _CHECKED
    for head in tables:
        first, since = None, now
        if head.version > max(head.published, known.get(head.table_id, -1)):
            if not left:
                continue
            left -= 1
            first = _first_missing(context, head)
        if first is None:
            known[head.table_id] = head.version
        else:
            with context.database.read() as session:
                found = measures.committed_ms(session, head.table_id, first)
            since = now if found is None else found
        count = 0 if first is None else head.version - first + 1
        yield Unpublished(str(head.name), count, max(0, now - since) / 1000)


def _first_missing(context: LakeContext, head: Head) -> int | None:
    missing = (p.first_missing(context, head) for p in publishers(head))
    return min((version for version in missing if version is not None), default=None)
