"""Computes how well a table's files are laid out: a score with reasons, from the log alone."""

from __future__ import annotations

import bisect
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.context import LakeContext
from lakeward.engines.arrow.partition import partition_directory
from lakeward.log import commits
from lakeward.maintain.optimize.choice import by_partition, deleted_share, to_pack
from lakeward.maintain.optimize.planning import last_layout, target_size
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile, deleted_rows
from lakeward.model.health import Health, PartitionHealth, Reason
from lakeward.model.layout import Layout, LayoutKind
from lakeward.model.types import Field
from lakeward.model.values import order_key
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.totals import KnownTotals

_POINTS: Final = {
    "small_files": 40,
    "deleted_rows": 20,
    "clustering": 20,
    "statistics": 10,
    "partitions": 15,
    "tombstones": 10,
    "log": 5,
    "skew": 5,
}
"""The maximal number of points that each kind of reason costs."""
_FEW_PARTITIONS: Final = 20
_LOG_VERSIONS: Final = 10_000
_SKEWED: Final = 10
_OVERLAPPING: Final = 4
"""The smallest number of files for which clustering is judged."""


def examine_table(context: LakeContext, snapshot: TableSnapshot) -> Health:
    """Return the health of a table at a version."""
    files = snapshot.plan()
    with context.database.read() as session:
        layout = last_layout(session, snapshot.log_head)
        head = snapshot.log_head
        stored = context.cache(KnownTotals).stored(session, head.table_id, head.version)
        first = commits.first_version(session, snapshot.log_head.table_id) or 0
    seen = _Seen(snapshot, files, layout, stored, snapshot.version - first + 1)
    found = sorted(_reasons(seen), key=lambda r: (-r.points, r.kind))
    reasons = tuple(r for r in found if r.points > 0)
    order = sorted(seen.partitions, key=_badness, reverse=True)
    size = sum(f.size for f in files)
    name = str(snapshot.log_head.name)
    return Health(name, snapshot.version, len(files), size, reasons, tuple(order))


def overlap(files: Sequence[LoggedFile], fields: Sequence[Field]) -> float | None:
    """Return the share of pairs of files whose bounds overlap, averaged over columns.

    0 if no two files may hold the same value; None if there are too few files with bounds.
    """
    shares = []
    for field in fields:
        spans = [s for f in files if (s := _span(f, field)) is not None]
        if len(spans) < _OVERLAPPING:
            continue
        lows, highs = sorted(low for low, _ in spans), sorted(high for _, high in spans)
        meeting = sum(
            bisect.bisect_right(lows, high) - bisect.bisect_left(highs, low) - 1
            for low, high in spans
        )
        shares.append(meeting / (len(spans) * (len(spans) - 1)))
    return sum(shares) / len(shares) if shares else None


def decay(share: float, files: int, columns: int) -> float:
    """Return, from 0 to 1, how much an overlap exceeds that of an ideal clustering.

    `columns` is the number of columns by which the files are clustered.
    """
    ideal: float = min(1.0, 2.0 * files ** (-1.0 / columns))
    return 0.0 if ideal >= 1 else max(0.0, (share - ideal) / (1 - ideal))


@dataclass
class _Seen:
    """A table's files and layout as recorded in the log."""

    snapshot: TableSnapshot
    files: Sequence[LoggedFile]
    layout: Layout
    stored: int
    versions: int

    def __post_init__(self) -> None:
        self.definition: Definition = self.snapshot.definition
        self.name = str(self.snapshot.log_head.name)
        self.target = target_size(self.snapshot.log_head, self.definition)
        by_name = self.definition.schema.by_name
        self.fields = [by_name[c] for c in self.layout.columns if c in by_name]
        self.groups = by_partition(self.files)
        self.partitions = [self._partition(g) for g in self.groups]

    def _partition(self, files: Sequence[LoggedFile]) -> PartitionHealth:
        definition = self.definition
        is_current = set(files[0].partition) == set(definition.partition_by)
        values = files[0].partition if is_current else {}
        rows = [f.file.live_rows for f in files]
        return PartitionHealth(
            partition=partition_directory(values, definition).rstrip("/") if values else "",
            files=len(files),
            small_files=sum(len(g.files) for g in to_pack(files, self.target, purge=False)),
            bytes=sum(f.size for f in files),
            rows=None if None in rows else sum(n or 0 for n in rows),
            deleted_rows=sum(deleted_rows(f.file.deletion_vector) or 0 for f in files),
            overlap=overlap(files, self.fields) if self.fields else None,
        )


def _reasons(seen: _Seen) -> Iterator[Reason]:
    if not seen.files:
        return
    yield _small(seen)
    yield _deleted(seen)
    yield _clustering(seen)
    yield _statistics(seen)
    yield _over_partitioned(seen)
    yield _tombstones(seen)
    yield _log(seen)
    yield _skew(seen)


def _reason(kind: str, share: float, what: str, command: str, worst: str | None = None) -> Reason:
    return Reason(kind, round(_POINTS[kind] * min(1.0, max(0.0, share))), what, command, worst)


def _small(seen: _Seen) -> Reason:
    small = sum(p.small_files for p in seen.partitions)
    left = sum(1 for p in seen.partitions if p.small_files)
    share = (small - left) / len(seen.files) if small else 0.0
    worst = max(seen.partitions, key=lambda p: p.small_files)
    what = f"{small} of {len(seen.files)} files are small, and would be about {left}"
    return _reason(
        "small_files", share, what, f"lakeward optimize {seen.name}", worst.partition or None
    )


def _deleted(seen: _Seen) -> Reason:
    many = [f for f in seen.files if deleted_share(f) > 0]
    gone = sum(deleted_rows(f.file.deletion_vector) or 0 for f in many)
    rows = sum(f.rows or 0 for f in seen.files)
    share = 5 * gone / rows if rows and gone else len(many) / len(seen.files)
    what = f"{gone} rows of {len(many)} files are deleted, but still in the files"
    return _reason("deleted_rows", share, what, f"lakeward optimize {seen.name} --purge")


def _clustering(seen: _Seen) -> Reason:
    known = [p for p in seen.partitions if p.overlap is not None]
    if not known or not seen.fields:
        return Reason("clustering", 0, "", "")
    columns = 1 if seen.layout.kind is LayoutKind.SORT else len(seen.fields)
    shares = [decay(p.overlap or 0.0, p.files, columns) for p in known]
    worst = max(zip(shares, known, strict=True), key=lambda s: s[0])[1]
    total = sum(p.bytes for p in known) or 1
    share = sum(s * p.bytes for s, p in zip(shares, known, strict=True)) / total
    names = ", ".join(seen.layout.columns)
    overlapping = sum((p.overlap or 0.0) * p.bytes for p in known) / total
    what = f"{overlapping:.0%} of files overlap by {names}, by which the table was clustered"
    option = f"--{seen.layout.kind.value} {','.join(seen.layout.columns)}"
    command = f"lakeward optimize {seen.name} {option}"
    return _reason("clustering", share, what, command, worst.partition or None)


def _statistics(seen: _Seen) -> Reason:
    missing = [f for f in seen.files if f.file.stats is None or f.rows is None]
    what = f"{len(missing)} of {len(seen.files)} files have no statistics, and are always read"
    command = f"lakeward optimize {seen.name} --purge"
    return _reason("statistics", len(missing) / len(seen.files), what, command)


def _over_partitioned(seen: _Seen) -> Reason:
    count = len(seen.partitions)
    mean = sum(p.bytes for p in seen.partitions) / count
    share = 0.0 if count < _FEW_PARTITIONS else 1 - 4 * mean / seen.target
    advice = _coarser(seen.definition)
    what = f"{count} partitions have {mean / 2**20:.1f} MB on average; {advice}"
    return _reason("partitions", share, what, f"lakeward show {seen.name}")


def _coarser(definition: Definition) -> str:
    """Return advice: days instead of hours, months instead of days, years instead of months."""
    steps = {"hour(": "day(", "day(": "month(", "days(": "month(", "month(": "year("}
    for term in definition.partitioning:
        for fine, coarse in steps.items():
            if term.startswith(fine):
                return f"partition by {coarse}{term[len(fine) :]} instead of {term}"
        column = definition.schema.by_name.get(term)
        if column is not None and str(column.type) == "date":
            return f"partition by month({term}) instead of {term}"
    return "partition by fewer or coarser values"


def _tombstones(seen: _Seen) -> Reason:
    live = sum(f.size for f in seen.files)
    dead = max(0, seen.stored - live)
    share = dead / (4 * live) if live else 0.0
    what = f"{dead / 2**20:.1f} MB of removed files lie beside {live / 2**20:.1f} MB of live ones"
    return _reason("tombstones", share, what, f"lakeward vacuum {seen.name}")


def _log(seen: _Seen) -> Reason:
    share = seen.versions / _LOG_VERSIONS - 0.1
    what = f"The log has {seen.versions} versions"
    return _reason("log", share, what, f"lakeward expire {seen.name}")


def _skew(seen: _Seen) -> Reason:
    sizes = [p.bytes for p in seen.partitions]
    if len(sizes) < 3:
        return Reason("skew", 0, "", "")
    middle = statistics.median(sizes) or 1
    largest = max(seen.partitions, key=lambda p: p.bytes)
    times = largest.bytes / middle
    share = 0.0 if largest.bytes < seen.target else (times - _SKEWED) / _SKEWED
    what = f"The largest partition is {times:.0f} times the median"
    return _reason("skew", share, what, f"lakeward show {seen.name}", largest.partition or None)


def _badness(partition: PartitionHealth) -> tuple[int, int, int]:
    return partition.small_files, partition.deleted_rows, partition.bytes


def _span(file: LoggedFile, field: Field) -> tuple[int, int] | None:
    stats = file.file.stats
    if stats is None or field.id not in stats.minimum or field.id not in stats.maximum:
        return None
    low, high = stats.minimum[field.id], stats.maximum[field.id]
    return order_key(field.type, low), order_key(field.type, high)
