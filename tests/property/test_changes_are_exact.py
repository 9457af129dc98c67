"""Random histories: for every pair of versions, the changes turn the rows of one into the other's.

Tables are of both formats, with and without a change feed and deletion vectors, partitioned or not;
the feed of some is turned on and off.
Their histories have appends, updates, deletes, merges, overwrites, compactions, restores, several
operations in one transaction, and changed columns: added, renamed, dropped, replaced by a schema of
other types.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from tests.property.histories import KINDS, History, made
from tests.support.applying import applied, bag, rows_in
from tests.support.sizes import sizes


@pytest.mark.parametrize("kind", KINDS)
@sizes("size", short=(2, 9), full=(12, 16))
def test_changes_between_any_two_versions_are_exact(
    tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    seeds, steps = size
    checked = 0
    with lw.open(tmp_path / "lake") as lake:
        for seed in range(seeds):
            chance = random.Random(f"{kind} {seed}")
            table = made(lake, f"t{seed}", kind, chance)
            history = History(lake, table, chance, toggles_feed=kind == "feed at times")
            for _ in range(steps):
                history.step()
            checked += _check_all_pairs(table, keyed=seed % 2 == 1)
            _check_conditions(table)
            if "feed" not in kind:
                _check_nothing_cancels(table)
    assert checked >= seeds * steps
    print(f"{kind}: {checked} pairs of versions")


def _check_all_pairs(table: lw.Table, *, keyed: bool) -> int:
    newest = table.version
    pairs = [(a, b) for b in range(1, newest + 1) for a in range(b)]
    for a, b in pairs:
        key = "id" if keyed else None
        changes = table.changes(since=a + 1, until=b, key=key).read_all()
        after = applied(rows_in(table, a, b), changes)
        assert after == rows_in(table, b, b), (table.name, a, b)
    return len(pairs)


def _check_conditions(table: lw.Table) -> None:
    """A condition chooses among the changes by the values that they show."""
    columns = {f.name: f.type for f in table.schema.to_arrow()}
    conditions: dict[str, Callable[[dict[str, Any]], bool]] = {}
    if columns.get("v") == pa.int64():
        conditions |= {
            "v = 1": lambda row: row["v"] == 1,
            "v is null": lambda row: row["v"] is None,
        }
    if "s" in columns and columns["s"].get_field_index("b") >= 0:
        conditions |= {
            "s.b = 1": lambda row: row["s"] is not None and row["s"]["b"] == 1,
            "s.b is null": lambda row: row["s"] is None or row["s"]["b"] is None,
        }
    every = table.changes(since=1).read_all()
    names = every.column_names
    for text, holds in conditions.items():
        found = table.changes(since=1, where=text).read_all().to_pylist()
        wanted = [row for row in every.to_pylist() if holds(row)]
        assert bag(found, names) == bag(wanted, names), (table.name, text)


def _check_nothing_cancels(table: lw.Table) -> None:
    """No version deletes and inserts the same row."""
    for version in range(1, table.version + 1):
        kinds: dict[str, Counter[str]] = {"insert": Counter(), "delete": Counter()}
        for row in table.changes(since=version, until=version).read_all().to_pylist():
            values = [row[n] for n in table.at(version=version).schema.names]
            kinds[row["_change_type"]][repr(values)] += 1
        assert not kinds["insert"] & kinds["delete"], (table.name, version)
