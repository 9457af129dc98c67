"""Differences of versions are computed by queries; their numbers are those of the file lists."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Literal
from unittest import mock

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, VersionNotFound
from lakeward.log import commits, differences, files, totals
from lakeward.log.codec import file_of
from lakeward.log.statement import Statement
from lakeward.model.file import LoggedFile
from lakeward.model.row_counts import row_counts
from lakeward.read import files_between
from lakeward.read.diff import Diff, FileInfo
from tests.support.inside import context_of

pytestmark = pytest.mark.formats("delta")
_VERSIONS = 12
_WITHOUT_METRICS = Statement(
    """UPDATE lakeward_commit SET info = '{"engine":"x","members":1}'
    WHERE version IN (2, 3, 5, 6, 8, 9, 11, 15)"""
)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize("is_large", [False, True])
def test_the_numbers_of_a_diff_are_those_of_the_lists_of_files(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch, seed: int, is_large: bool
) -> None:
    table = _changed_at_random(lake, seed)
    with context_of(lake).database.write() as session:
        session.run(_WITHOUT_METRICS)
    if is_large:
        monkeypatch.setattr(files_between, "FEW", -1)
        monkeypatch.setattr(files_between, "_MANY", 1)
        monkeypatch.setattr(totals, "_WIDE", 2)
    seen = Counter[str]()
    pairs = list(product(range(table.version + 1), repeat=2))
    for a, b in [(14, 15), *random.Random(seed).sample(pairs, 40)]:
        found = table.diff(a, b)
        assert found.is_small is not is_large
        added, removed = _only_in(table, b, a), _only_in(table, a, b)
        assert found.added_files == tuple(added)
        assert found.removed_files == tuple(removed)
        for sums, listed in ((found.added, added), (found.removed, removed)):
            rows = sum(f.file.logged_rows for f in listed)
            assert sums == (len(listed), sum(f.size for f in listed), rows)
        assert (found.rows_added, found.rows_removed) == (found.added.rows, found.removed.rows)
        assert found.before == table.at(version=a).totals()
        assert found.after == table.at(version=b).totals()
        assert {p.partition: p[1:] for p in found.partitions} == _partitions(found)
        assert [p.partition for p in found.partitions] == sorted(_partitions(found))
        assert found.changed == _changed(table, a, b)
        assert found.is_empty == (not added and not removed)
        assert _paged(found, "added") == found.files_added
        assert _paged(found, "removed") == found.files_removed
        seen["vectors"] += any(f.file.deletion_vector for f in added)
        seen["both"] += bool(added and removed)
        seen["unknown"] += found.changed is None
        seen["known"] += found.changed is not None and a != b
    assert min(seen.values()) > 0


def test_totals_and_pages_of_a_large_diff_read_no_other_files(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = _changed_at_random(lake, 1)
    monkeypatch.setattr(files_between, "FEW", -1)
    with mock.patch.object(differences, "file_of", wraps=file_of) as made:
        found = table.diff(0, table.version)
        assert found.added.files > 2
        assert repr(found)
        assert found._repr_html_()
        assert found.is_empty is False
        assert found.partitions
        assert made.call_count == 0
        assert len(found.files("added", limit=2).files) == 2
        # One more tells whether others follow.
        assert made.call_count == 3


@pytest.mark.local
def test_a_large_diff_of_vacuumed_versions_says_so_and_a_small_one_is_kept(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create("t", {"id": "int64"})
    for number in range(3):
        table.overwrite([{"id": number}])
    small = table.diff(1, 3)
    monkeypatch.setattr(files_between, "FEW", -1)
    large = table.diff(1, 3)
    table.vacuum(retention="0s", force=True)

    assert [len(small.added_files), len(small.removed_files), len(small.partitions)] == [1, 1, 1]
    for read in (
        lambda: large.added_files,
        lambda: large.partitions,
        lambda: large.changed,
        lambda: large.files("removed"),
    ):
        with pytest.raises(VersionNotFound, match="was vacuumed"):
            read()
    assert (large.added.files, large.removed.files) == (1, 1)


def test_a_page_of_files_is_of_added_or_of_removed_files(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        found = lake.create("t", {"id": "int64"}).diff(0, 0)
        assert found.files("added") == ((), None)
        with pytest.raises(InvalidInput, match="must be 'added' or 'removed'"):
            found.files("changed")  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="`limit`"):
            found.files("added", limit=-1)


def _changed_at_random(lake: lw.Lake, seed: int) -> lw.Table:
    """A partitioned table after appends, overwrites, deletions in place and restores."""
    pick = random.Random(seed)
    table = lake.create(
        "t", "id int64, day string", partition_by=["day"], policy={"merge_on_read": True}
    )
    for number in range(_VERSIONS):
        kept = [{"id": number * 100 + n, "day": pick.choice(["a", "b", None])} for n in range(50)]
        match pick.choice(["appends", "overwrite", "place", "partition", "restore"]):
            case "overwrite" if number > 4:
                table.overwrite(kept)
            case "place" if number > 1:
                table.delete(where=f"id % 50 = {pick.randint(0, 49)}")
            case "partition" if number > 4:
                table.delete(where="day = 'a'")
            case "restore" if number > 4:
                table.restore(version=pick.randint(1, table.version))
            case _:
                table.append(kept)
    # The last version only removes a file, of which a row was deleted in place.
    table.append([{"id": -n, "day": "z"} for n in range(1, 50)])
    table.delete(where="id = -7")
    table.delete(where="day = 'z'")
    return table


def _files(table: lw.Table, version: int) -> list[LoggedFile]:
    head = table.at().log_head
    with context_of(table).database.read() as session:
        found = list(files.at(session, head.table_id, version))
    return sorted(found, key=lambda f: (f.added, f.ordinal))


def _only_in(table: lw.Table, version: int, other: int) -> list[LoggedFile]:
    known = {(f.added, f.ordinal) for f in _files(table, other)}
    return [f for f in _files(table, version) if (f.added, f.ordinal) not in known]


def _partitions(found: Diff) -> dict[str, tuple[int, ...]]:
    counts: dict[str, list[int]] = {}
    for place, listed in enumerate((found.files_added, found.files_removed)):
        for f in listed:
            (value,) = f.partition.values()
            line = counts.setdefault(f"day={'(none)' if value is None else value}", [0] * 4)
            line[place] += 1
            line[place + 2] += f.rows or 0
    return {name: tuple(line) for name, line in counts.items()}


def _changed(table: lw.Table, a: int, b: int) -> tuple[int, ...] | None:
    """The rows that commits changed, commit by commit."""
    low, high = sorted((a, b))
    table_id = table.at().log_head.table_id
    total = [0, 0, 0]
    with context_of(table).database.read() as session:
        for version in range(low + 1, high + 1):
            one = commits.one(session, table_id, version)
            assert one is not None
            counts = row_counts(one.info)
            if counts is None:
                came = [f.file.live_rows for f in files.added_at(session, table_id, version)]
                went = [f.file.live_rows for f in files.removed_at(session, table_id, version)]
                if (came and went) or None in came or None in went:
                    return None
                counts = (sum(n or 0 for n in came), 0, sum(n or 0 for n in went))  # type: ignore[assignment]
            total = [x + y for x, y in zip(total, counts or (), strict=True)]
    return tuple(total if a <= b else total[::-1])


def _paged(found: Diff, kind: Literal["added", "removed"]) -> tuple[FileInfo, ...]:
    listed: tuple[FileInfo, ...] = ()
    after = None
    while True:
        page = found.files(kind, limit=2, after=after)
        assert len(page.files) <= 2
        listed += page.files
        after = page.next
        if after is None:
            return listed
