"""Chooses the files worth rewriting, in groups that are rewritten together.

Compaction takes files that are well below the target size, or have many deleted rows, and only if
clearly fewer files result. Clustering takes files that are not yet clustered by the same columns;
the clustered files are rewritten with them once the new files are a large part of the partition, or
the clustered ones come from many runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.model.file import LoggedFile, deleted_rows
from lakeward.model.values import Value

SMALL: Final = 0.75
"""A file below this share of the target size is small."""
DELETED: Final = 0.05
"""A file of which this share of rows is deleted is worth rewriting."""
_UNEVEN: Final = 8
"""The factor by which a file may exceed the size of all others of its group, if these are few."""
_RECLUSTER: Final = 0.2
_RUNS: Final = 8
_LARGEST: Final = 8 * 2**30
"""The maximal size on disk of files that are clustered together."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one partition that are rewritten together, and why."""

    partition: Mapping[int, Value]
    files: tuple[LoggedFile, ...]
    why: str

    @property
    def bytes(self) -> int:
        """Total size of the files, in bytes."""
        return sum(f.size for f in self.files)


def by_partition(files: Iterable[LoggedFile]) -> list[list[LoggedFile]]:
    """Group files by partition, in the order in which they were added."""
    out: dict[tuple[tuple[int, Value], ...], list[LoggedFile]] = {}
    for file in sorted(files, key=lambda f: (f.added, f.ordinal)):
        out.setdefault(tuple(sorted(file.partition.items())), []).append(file)
    return list(out.values())


def is_small(file: LoggedFile, target: int) -> bool:
    """Return whether a file is well below the target size."""
    return file.size < SMALL * target


def deleted_share(file: LoggedFile) -> float:
    """Return the share of a file's rows that are deleted by a vector; 1 if it is not known."""
    vector = file.file.deletion_vector
    if vector is None:
        return 0.0
    gone = deleted_rows(vector)
    return 1.0 if gone is None or not file.rows else gone / file.rows


def to_pack(files: Sequence[LoggedFile], target: int, *, purge: bool) -> list[Group]:
    """Return groups of one partition's files to be compacted."""
    groups: list[Group] = []
    waiting: list[LoggedFile] = []
    size = 0
    for file in files:
        share = deleted_share(file)
        if not _is_purged(file, purge=purge) and not is_small(file, target):
            continue
        weight = int(file.size * (1 - min(share, 1.0)))
        if waiting and size + weight > target:
            groups += _worth(waiting, purge=purge)
            waiting, size = [], 0
        waiting.append(file)
        size += weight
    return groups + _worth(waiting, purge=purge)


def to_cluster(
    files: Sequence[LoggedFile], is_clustered: Callable[[LoggedFile], bool], *, purge: bool
) -> list[Group]:
    """Return groups of one partition's files to be clustered; none if all are clustered."""
    new = [f for f in files if not is_clustered(f) or _is_purged(f, purge=purge)]
    if not new:
        return []
    total, fresh = sum(f.size for f in files), sum(f.size for f in new)
    keys = {(f.added, f.ordinal) for f in new}
    runs = len({f.added for f in files if (f.added, f.ordinal) not in keys})
    if fresh >= _RECLUSTER * total or runs >= _RUNS or not runs:
        return _cut(files, f"{len(new)} of {len(files)} files are not clustered")
    return _cut(new, f"{len(new)} files are not clustered")


def _is_purged(file: LoggedFile, *, purge: bool) -> bool:
    share = deleted_share(file)
    return share >= DELETED or (purge and (share > 0 or file.file.stats is None))


def _cut(files: Sequence[LoggedFile], why: str) -> list[Group]:
    out: list[Group] = []
    some: list[LoggedFile] = []
    size = 0
    for file in files:
        if some and size + file.size > _LARGEST:
            out.append(Group(some[0].partition, tuple(some), why))
            some, size = [], 0
        some.append(file)
        size += file.size
    out.append(Group(some[0].partition, tuple(some), why))
    return out


def _worth(files: Sequence[LoggedFile], *, purge: bool) -> list[Group]:
    """Return the files as one group, without those too large to be worth it, or no group."""
    kept = list(files)
    while len(kept) > 1:
        largest = max(kept, key=lambda f: f.size)
        rest = sum(f.size for f in kept) - largest.size
        is_even = rest * _UNEVEN >= largest.size or len(kept) > _UNEVEN
        if is_even or _is_purged(largest, purge=purge):
            break
        kept.remove(largest)
    purged = sum(_is_purged(f, purge=purge) for f in kept)
    if len(kept) < 2 and not purged:
        return []
    reasons = []
    if len(kept) > 1:
        reasons.append(f"{len(kept)} small files")
    if purged:
        reasons.append(f"{purged} with deleted rows or without statistics")
    return [Group(kept[0].partition, tuple(kept), ", ".join(reasons))]
