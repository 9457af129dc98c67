"""Decides which versions of a table must be kept.

Kept are all versions inside the retention, all versions from the first one that an open transaction
may have seen, all that may not be published yet, and each one that a tag, a branch, a clone or a
pin holds. The newest version is always kept, unless the table was dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lakeward.context import LakeContext
from lakeward.formats.registry import publishers
from lakeward.log import branches, commits, heads, pins, tags, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.file import LIVE

CLOCKS_DIFFER_MS: Final = 2 * 3_600_000
"""The maximal difference between the clocks that stamp commits and transactions."""


@dataclass(frozen=True, slots=True)
class Kept:
    """The versions of a table that are kept.

    Attributes:
        kept_from: This version and all later ones are kept; `LIVE` for none.
        held: Older versions that are kept, sorted.
        why: What holds versions, for people.
        earlier: Versions that are held of dropped tables at the same location, by table id.
    """

    kept_from: int
    held: tuple[int, ...]
    why: tuple[str, ...] = ()
    earlier: Mapping[int, frozenset[int]] = field(default_factory=dict)

    def covers(self, other: Kept) -> bool:
        """Return whether all versions that `other` keeps are kept here too."""
        if other.kept_from < self.kept_from:
            return False
        if not all(held <= self.earlier.get(i, set()) for i, held in other.earlier.items()):
            return False
        own = set(self.held)
        return all(v >= self.kept_from or v in own for v in other.held)


def kept_versions(
    context: LakeContext, session: Session, head: Head, cutoff_ms: int, now: int
) -> Kept:
    """Return the versions of a table to keep if the retention ends at `cutoff_ms`.

    `now` is the earliest of all clocks: a pin holds its version until its lease has expired by it.
    """
    oldest = commits.version_at(session, head.table_id, cutoff_ms)
    first = commits.first_version(session, head.table_id) or 0
    kept_from, why = min(max(first, oldest or 0), head.version), []
    published = min(p.published(head) for p in publishers(head))
    if published < kept_from:
        kept_from = max(0, published)
        why.append(f"versions after {published} may not be published yet")
    seen = _seen_by_open_transactions(session, head.table_id)
    if seen is not None and seen < kept_from:
        kept_from = seen
        why.append(f"an open transaction may read version {seen}")
    held, reasons = held_versions(context, session, head.table_id, now)
    below = tuple(sorted(v for v in held if v < kept_from))
    return Kept(kept_from, below, (*why, *reasons), _of_earlier(context, session, head, now))


def kept_of_dropped(context: LakeContext, session: Session, head: Head, now: int) -> Kept:
    """Return the versions of a dropped table that are still held; `now` as in `kept_versions`."""
    held, reasons = held_versions(context, session, head.table_id, now)
    earlier = _of_earlier(context, session, head, now)
    return Kept(LIVE, tuple(sorted(held)), tuple(reasons), earlier)


def may_be_read(session: Session, dropped_ms: int) -> bool:
    """Return whether an open transaction began before a table was dropped, and may read it."""
    opened = [t.opened_ms for t in transactions.still_open(session)]
    return any(at - CLOCKS_DIFFER_MS < dropped_ms for at in opened)


def held_versions(
    context: LakeContext, session: Session, table_id: int, now: int
) -> tuple[set[int], list[str]]:
    """Return the single versions that are held, and descriptions of what holds them."""
    # A clock that was set forward must not end the pins of readers at work.
    now = min(context.database.clock_ms(session), now)
    found = {
        "tags hold": tags.held_versions(session, table_id),
        "branches and clones use": branches.held_versions(session, table_id),
        "readers have pinned": pins.held_versions(session, table_id, now),
    }
    reasons = [f"{who} {_some(versions)}" for who, versions in found.items() if versions]
    return set().union(*found.values()), reasons


def _of_earlier(
    context: LakeContext, session: Session, head: Head, now: int
) -> dict[int, frozenset[int]]:
    """Return the held versions of dropped tables whose files a table took over, by table id."""
    before = heads.before_at_location(session, head)
    return {i: frozenset(held_versions(context, session, i, now)[0]) for i in before}


def _seen_by_open_transactions(session: Session, table_id: int) -> int | None:
    opened = [t.opened_ms for t in transactions.still_open(session)]
    if not opened:
        return None
    return commits.version_at(session, table_id, min(opened) - CLOCKS_DIFFER_MS) or 0


def _some(versions: set[int]) -> str:
    shown = sorted(versions)
    many = f", … ({len(shown)})" if len(shown) > 3 else ""
    noun = "version" if len(shown) == 1 else "versions"
    return f"{noun} {', '.join(map(str, shown[:3]))}{many}"
