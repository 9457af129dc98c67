"""Checks the audit trails of a lake: their hash chains, and the anchors in published commits.

A trail is a hash chain, so a changed, removed or inserted entry breaks it, unless an attacker who
can write the store recomputes all later hashes. Every published commit contains the newest entry of
the trail before it (its anchor), so such a chain no longer fits the tables' own files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.formats.registry import publishers
from lakeward.log import audit, heads
from lakeward.model.commit import Head

_ADOPTED: Final = "ADOPT TABLE"


@dataclass(frozen=True, slots=True)
class TrailBreak:
    """A place where an audit trail differs from what was written.

    Attributes:
        table: The table.
        entry: The first entry that is wrong.
        reason: What is wrong, in words.
    """

    table: str
    entry: int
    reason: str


@dataclass(frozen=True, slots=True)
class TrailReport:
    """What was checked, and where trails are broken.

    Attributes:
        tables: How many tables have a trail, including dropped ones.
        entries: How many entries were checked.
        anchors: How many published commits were compared with the trails.
        breaks: At most one for each table; empty if all trails are intact.
    """

    tables: int
    entries: int
    anchors: int
    breaks: tuple[TrailBreak, ...]

    @property
    def is_whole(self) -> bool:
        """Whether no trail is broken."""
        return not self.breaks


def verify(context: LakeContext) -> TrailReport:
    """Check the trails of all tables, including dropped ones."""
    with context.database.read() as session:
        known = heads.at_moment(session, 0)
    entries = anchors = 0
    breaks: list[TrailBreak] = []
    for head in known:
        with context.database.read() as session:
            now = heads.ever_by_id(session, head.table_id)
            broken = audit.broken_at(session, now)
            trail = list(audit.entries(session, head.table_id))
        hashes = {entry.seq: entry.hash for entry in trail}
        entries += len(hashes)
        # Commits that another store published have the hashes of that store's trail.
        taken = max((e.version or 0 for e in trail if e.action == _ADOPTED), default=-1)
        published = sorted(a for a in _published(context, now) if a[0] > taken)
        anchors += len(published)
        found = _first_difference(head, hashes, published)
        if broken is not None and (found is None or broken <= found.entry):
            found = TrailBreak(str(head.name), broken, "its hash does not follow from its content")
        if found is not None:
            breaks.append(found)
    return TrailReport(len(known), entries, anchors, tuple(breaks))


def _first_difference(
    head: Head, hashes: dict[int, str], published: list[tuple[int, str]]
) -> TrailBreak | None:
    """Return the first published anchor that differs from the trail."""
    for version, anchor in published:
        number, _, expected = anchor.partition(":")
        if not number.isdecimal() or hashes.get(int(number)) != expected:
            entry = int(number) if number.isdecimal() else 0
            reason = f"the files of version {version} were published with another hash of it"
            return TrailBreak(str(head.name), entry, reason)
    return None


def _published(context: LakeContext, head: Head) -> Iterator[tuple[int, str]]:
    for publisher in publishers(head):
        try:
            yield from publisher.anchors(context, head)
        except LakewardError:
            # Missing or damaged files prove nothing; `doctor` reports them.
            continue
