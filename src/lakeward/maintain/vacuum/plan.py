"""Plans a vacuum: the files of a table to delete, and why no version needs them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable, InvalidInput
from lakeward.formats.policy import settings
from lakeward.formats.properties import keeps_files, retention_ms
from lakeward.formats.registry import publishers
from lakeward.log import heads, retired
from lakeward.log.database import Session
from lakeward.maintain.vacuum.behind import taken_over
from lakeward.maintain.vacuum.files import Listed, Why, foreign_refs, listed, metadata_names, sort
from lakeward.maintain.vacuum.kept import Kept, kept_of_dropped, kept_versions, may_be_read
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.duration import for_people, to_milliseconds
from lakeward.model.file import LIVE
from lakeward.model.maintenance import Unit
from lakeward.storage.base import StoredFile

FLOOR_MS: Final = 7 * 86_400_000
"""Younger files are not deleted without force."""
_AT_ONCE: Final = 1000
_TICK_MS: Final = 100
"""The maximal delay of the clock by which file systems stamp files."""
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Limits:
    """How old versions and files must be.

    Attributes:
        retention_ms: How long versions stay readable; None for each table's own retention.
        floor_ms: How old a file must be, by the clock of the storage.
        unknown: Whether to delete files that are neither in the log nor of a transaction.
    """

    retention_ms: int | None = None
    floor_ms: int = FLOOR_MS
    unknown: bool = False

    @classmethod
    def of(cls, retention: object, *, force: bool, unknown: bool) -> Limits:
        """Return the limits for user arguments; raise `InvalidInput` below the floor."""
        if retention is None:
            return cls(unknown=unknown)
        length = to_milliseconds(retention, "retention")
        if length < FLOOR_MS and not force:
            what = (
                f"A retention of {for_people(length)} is below the floor of"
                f" {for_people(FLOOR_MS)}. Nothing was deleted."
            )
            hint = "Readers and writers at work may need the files; give force=True (--force)."
            raise InvalidInput(what, hint=hint, parameter="retention")
        return cls(length, min(length, FLOOR_MS), unknown)


@dataclass(frozen=True, slots=True)
class Clock:
    """The present time: the earliest of all clocks for versions, the storage's clock for files."""

    versions_ms: int
    files_ms: int

    @classmethod
    def read(cls, context: LakeContext) -> Clock:
        """Read the clocks of the store, the warehouse and this host."""
        with context.database.read() as session:
            store = context.database.clock_ms(session)
        # A user without write access cannot get the warehouse's time, and deletes nothing.
        files = now_ms() if context.database.read_only else context.storage.clock_ms()
        return cls(min(store, files + _TICK_MS, now_ms()), files)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """The files of one table to be deleted.

    Attributes:
        head: The table when it was planned.
        kept: The versions that are kept.
        names: Files to delete, relative to the table's directory, by reason.
        sizes: The sizes of these files.
        young: The number of files that no version needs, but that are not old enough.
        unknown: Files that are neither in the log nor of a transaction.
        refs: Tags and branches of other engines whose files are kept, with their snapshots.
        dropped_ms: When the table was dropped; None for a table of the lake.
        kept_because: Why no file is deleted, for people; None if files may be.
        unpruned: Whether an earlier vacuum stopped before it deleted rows of the log.
    """

    head: Head
    kept: Kept
    names: Mapping[Why, Sequence[str]] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    young: int = 0
    unknown: tuple[str, ...] = ()
    refs: Mapping[str, int] = field(default_factory=dict)
    dropped_ms: int | None = None
    kept_because: str | None = None
    unpruned: bool = False

    @property
    def has_work(self) -> bool:
        """Whether there are files, or rows of the log about deleted files, to delete."""
        return bool(self.names) or (self.unpruned and not self.young)

    def units(self) -> Iterator[Unit]:
        """Yield batches of files, each deleted as one unit."""
        for why, names in self.names.items():
            for some in in_batches(sorted(names), _AT_ONCE):
                size = sum(self.sizes.get(name, 0) for name in some)
                yield Unit(
                    table=str(self.head.name),
                    what=f"delete {len(some)} file{'' if len(some) == 1 else 's'}",
                    why=why.value,
                    gain=f"{size:,} bytes freed",
                    frees=size,
                    files=len(some),
                    work=(self, some),
                )
        if self.has_work:
            yield Unit(
                table=str(self.head.name),
                what="delete rows of the log that name deleted files",
                why="no version that can be read needs them",
                work=(self, None),
            )

    def notes(self) -> Iterator[str]:
        """Yield notes about what is kept, for people."""
        for why in self.kept.why:
            yield f"{self.head.name}: {why}."
        if self.refs:
            names = ", ".join(sorted(self.refs))
            yield f"{self.head.name}: other engines' tags and branches hold files: {names}."
        if self.kept_because is not None:
            yield f"{self.head.name}: {self.kept_because}: nothing is deleted."
        if self.young:
            yield f"{self.head.name}: {self.young} files are too young to be deleted."
        if self.unknown:
            shown = ", ".join(self.unknown[:3]) + (", …" if len(self.unknown) > 3 else "")
            yield (f"{self.head.name}: {len(self.unknown)} unknown files are left alone: {shown}.")

    def facts(self) -> dict[str, object]:
        """Return the table's part of the plan, for programs."""
        count = sum(len(names) for names in self.names.values())
        return {
            "table": str(self.head.name),
            "dropped": self.dropped_ms is not None,
            "files": count,
            "bytes": sum(self.sizes.values()),
            "kept_from": None if self.kept.kept_from == LIVE else self.kept.kept_from,
            "held": list(self.kept.held),
            "young": self.young,
            "unknown": len(self.unknown),
            "unknown_files": list(self.unknown[:_SHOWN]),
            "by_reason": {why.name.lower(): len(names) for why, names in self.names.items()},
        }


def in_batches(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Yield names in batches of `size`."""
    return (names[start : start + size] for start in range(0, len(names), size))


def cutoff_ms(context: LakeContext, session: Session, head: Head, limits: Limits, now: int) -> int:
    """Return the time before which a table's versions are outside the retention."""
    length = limits.retention_ms
    if length is None:
        length = retention_ms(settings(head, context.definition(session, head)))
    return now - length


def why_all_is_kept(
    context: LakeContext, session: Session, head: Head, *, dropped: bool
) -> str | None:
    """Return why no file of a table may be deleted, for people; None if files may be."""
    forbidden = keeps_files(settings(head, context.definition(session, head)))
    theirs = taken_over(context, head) if dropped and forbidden is None else None
    if theirs is None:
        return forbidden
    return f"it was dropped, but another lake or engine wrote {context.storage.uri(theirs)} since"


def plan_table(context: LakeContext, head: Head, limits: Limits, clock: Clock) -> TablePlan:
    """Plan the vacuum of one live table."""
    found = listed(context.storage, head)
    with context.database.read() as session:
        current = heads.by_id(session, head.table_id) or head
        because = why_all_is_kept(context, session, current, dropped=False)
        if because is not None:
            return TablePlan(current, Kept(0, ()), kept_because=because)
        cutoff = cutoff_ms(context, session, current, limits, clock.versions_ms)
        kept = kept_versions(context, session, current, cutoff, clock.versions_ms)
        refs = foreign_refs(context, session, current)
        return _planned(context, session, current, kept, found, limits, clock, refs)


def plan_dropped(
    context: LakeContext, head: Head, dropped_ms: int, limits: Limits, clock: Clock
) -> TablePlan:
    """Plan the vacuum of a dropped table whose grace period is over.

    The table's metadata is deleted when nothing holds one of its versions.
    """
    found = listed(context.storage, head, hidden=True)
    metadata = metadata_names(head, found)
    rows = {name: found[name] for name in found.keys() - set(metadata)}
    with context.database.read() as session:
        known = (head, dropped_ms) in heads.dropped(session)
        if not known or may_be_read(session, dropped_ms) or heads.has_heir(session, head):
            # It came back or was adopted meanwhile; after another drop, its grace period is longer.
            return TablePlan(head, Kept(0, ()), dropped_ms=dropped_ms)
        because = why_all_is_kept(context, session, head, dropped=True)
        if because is not None:
            return TablePlan(head, Kept(0, ()), dropped_ms=dropped_ms, kept_because=because)
        kept = kept_of_dropped(context, session, head, clock.versions_ms)
        refs = _refs_of_dropped(context, session, head) if kept.held else {}
        plan = _planned(context, session, head, kept, rows, limits, clock, refs)
        if not kept.held:
            plan = replace(plan, unpruned=retired.pruned_to(session, head.table_id) < LIVE)
    if kept.held:
        return replace(plan, dropped_ms=dropped_ms)
    chosen, young = _old_enough(
        context, head, found, {Why.DROPPED: metadata}, limits.floor_ms, clock
    )
    return replace(
        plan,
        dropped_ms=dropped_ms,
        names={**plan.names, **_by_reason({Why.DROPPED: metadata}, chosen)},
        sizes={**plan.sizes, **chosen},
        young=plan.young + young,
    )


def _refs_of_dropped(context: LakeContext, session: Session, head: Head) -> dict[str, int]:
    """Return the refs of other engines that come back if the table is restored."""
    try:
        return foreign_refs(context, session, head)
    except CorruptTable:
        # Its metadata is gone, and the refs with it.
        return {}


def _planned(
    context: LakeContext,
    session: Session,
    head: Head,
    kept: Kept,
    found: Listed,
    limits: Limits,
    clock: Clock,
    refs: Mapping[str, int],
) -> TablePlan:
    result = sort(context, session, head, found, kept, refs)
    wanted = dict(result.deletable)
    old, young = _old_enough(context, head, found, wanted, limits.floor_ms, clock)
    left = result.unknown
    if limits.unknown and left:
        wanted[Why.UNKNOWN] = left
        floor = FLOOR_MS if _others_may_write(head) else limits.floor_ms
        aged, _ = _old_enough(context, head, found, {Why.UNKNOWN: left}, floor, clock)
        old |= aged
        left = [name for name in left if name not in aged]
    table_id = head.table_id
    return TablePlan(
        head,
        kept,
        _by_reason(wanted, old),
        old,
        young,
        tuple(sorted(left)),
        refs,
        unpruned=retired.pruned_to(session, table_id) < retired.kept_from(session, table_id),
    )


def _others_may_write(head: Head) -> bool:
    """Return whether unknown files may belong to writers other than Lakeward."""
    return not head.guarded or any(p.has_catalog for p in publishers(head))


def _old_enough(
    context: LakeContext,
    head: Head,
    found: Listed,
    wanted: Mapping[Why, Sequence[str]],
    floor_ms: int,
    clock: Clock,
) -> tuple[dict[str, int], int]:
    """Return the files older than the floor with their sizes, and the number of younger ones."""
    names = [n for group in wanted.values() for n in group]
    facts: dict[str, StoredFile] = {n: f for n in names if (f := found[n]) is not None}
    if len(facts) < len(names):
        missing = [n for n in names if n not in facts] if facts else names
        facts |= context.storage.look_below(head.location, missing)
    latest = clock.files_ms - floor_ms
    old = {name: f.size for name, f in facts.items() if f.modified_ms <= latest}
    return old, len(facts) - len(old)


def _by_reason(wanted: Mapping[Why, Sequence[str]], old: Mapping[str, int]) -> dict[Why, list[str]]:
    chosen = {why: [n for n in names if n in old] for why, names in wanted.items()}
    return {why: names for why, names in chosen.items() if names}
