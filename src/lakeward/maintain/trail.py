"""Checks the audit trails of a lake: their hash chains, and the anchors in published commits.

A trail is a hash chain, so a changed, removed or inserted entry breaks it, unless an attacker who
can write to the store recomputes all later hashes. Every published commit contains the hash of its
own entry (its anchor), so such a chain no longer agrees with the published files. An
adopted table has commits with the anchors of other trails: only an adoption as first entry excuses
them, and never an anchor that names the table's own trail.
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
_ABOUT_VERSIONS: Final = frozenset({"READ", "TAG"})
"""Actions whose entries name a version that they did not make."""


@dataclass(frozen=True, slots=True)
class TrailBreak:
    """A place where an audit trail differs from what was written.

    Attributes:
        table: The table.
        entry: The number of the first wrong entry.
        reason: What is wrong, in words.
    """

    table: str
    entry: int
    reason: str


@dataclass(frozen=True, slots=True)
class TrailReport:
    """What was checked, and where trails are broken.

    Attributes:
        tables: The number of tables with a trail, including dropped ones.
        entries: The number of entries checked.
        anchors: The number of published commits compared with the trails.
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
        taken = _adopted_version(trail)
        other = {
            audit.trail_of(context.identity, one.table_id)
            for one in known
            if one.location == head.location and one.table_id != head.table_id
        } - {""}
        own = audit.trail_of(context.identity, head.table_id)
        # Commits that were published for another trail have the hashes of that trail.
        published = [
            (version, anchor)
            for version, anchor in sorted(_published(context, now))
            if (anchor.trail == own != "") or (version > taken and anchor.trail not in other)
        ]
        anchors += len(published)
        found = _first_difference(head, hashes, published)
        late = _forged_adoption(trail, taken)
        if late is not None and (found is None or late <= found.entry):
            reason = "it records a version that the table had before it was adopted"
            found = TrailBreak(str(head.name), late, reason)
        if broken is not None and (found is None or broken <= found.entry):
            found = TrailBreak(str(head.name), broken, "its hash does not follow from its content")
        if found is not None:
            breaks.append(found)
    return TrailReport(len(known), entries, anchors, tuple(breaks))


def _adopted_version(trail: list[audit.AuditEntry]) -> int:
    """Return the version with which a table was adopted; -1 if its first entry is no adoption."""
    first = trail[0] if trail else None
    return first.version or 0 if first is not None and first.action == _ADOPTED else -1


def _forged_adoption(trail: list[audit.AuditEntry], taken: int) -> int | None:
    """Return the first entry with a version up to the adopted one, which no adoption leaves."""
    written = (e for e in trail[1:] if e.version is not None and e.action not in _ABOUT_VERSIONS)
    return next((e.seq for e in written if (e.version or 0) <= taken), None)


def _first_difference(
    head: Head, hashes: dict[int, str], published: list[tuple[int, audit.Anchor]]
) -> TrailBreak | None:
    """Return the first published anchor that differs from the trail, or None."""
    for version, anchor in published:
        if hashes.get(anchor.number) != anchor.hash:
            reason = f"the files of version {version} were published with another hash of it"
            return TrailBreak(str(head.name), anchor.number, reason)
    return None


def _published(context: LakeContext, head: Head) -> Iterator[tuple[int, audit.Anchor]]:
    for publisher in publishers(head):
        try:
            for version, text in publisher.anchors(context, head):
                yield version, audit.Anchor.of_text(text)
        except LakewardError:
            # Missing or damaged files prove nothing; `doctor` reports them.
            continue
