"""Undo of every transaction of random histories, against a model of files.

The model keeps for each table the files of the newest version, each with the rows in it. Undoing a
transaction is possible if all files that it added are there as it left them; then these go and
those that it removed come back. Otherwise the lake must conflict, and change nothing.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TypeAlias

import lakeward as lw
from lakeward.errors import Conflict
from tests.support.iceberg import stranger_arrow
from tests.support.invariants import stranger_rows
from tests.support.sizes import sizes

Identity: TypeAlias = tuple[str, str]
TABLES = ("d", "v", "i")


def _files(lake: lw.Lake, name: str) -> set[Identity]:
    """The files of a table by path and deletion vector."""
    return {(f.path, str(f.file.deletion_vector)) for f in lake.table(name).files()}


def _versions(lake: lw.Lake) -> dict[str, int]:
    return {name: lake.table(name).version for name in TABLES}


def _ids(lake: lw.Lake, name: str) -> list[int]:
    return sorted(lake.table(name).to_arrow()["id"].to_pylist())


def _step(lake: lw.Lake, choose: random.Random, number: int) -> str:
    """One transaction that does something to one or more tables."""
    with lake.transaction() as tx:
        for name in choose.sample(TABLES, choose.randint(1, 3)):
            known = _ids(lake, name)
            what = choose.choice(
                ["append", "append", "delete", "update", "overwrite", "merge", "restore"]
            )
            if what == "append" or not known:
                tx.append(name, [{"id": number * 10 + n, "x": n} for n in range(3)])
            elif what == "delete":
                tx.delete(name, where=f"id = {choose.choice(known)}")
            elif what == "update":
                tx.update(name, set={"x": "x + 1"}, where=f"id = {choose.choice(known)}")
            elif what == "merge":
                rows = [{"id": choose.choice(known), "x": 7}, {"id": number * 10, "x": 8}]
                tx.merge(name, rows, on="id")
            elif what == "restore":
                tx.restore(name, version=choose.randrange(lake.table(name).version + 1))
            else:
                tx.overwrite(name, [{"id": number * 10, "x": 0}])
    return tx.transaction_id


@sizes("histories", short=3, full=100)
def test_undo_of_each_transaction_is_what_the_model_says(tmp_path: Path, histories: int) -> None:
    done, refused = 0, 0
    for seed in range(histories):
        choose = random.Random(seed)
        with lw.open(tmp_path / str(seed)) as lake:
            done_here, refused_here = _history(lake, choose)
        done, refused = done + done_here, refused + refused_here
    assert done
    assert refused
    print(f"\nundo: {done} taken back, {refused} refused")


def _history(lake: lw.Lake, choose: random.Random) -> tuple[int, int]:
    vectors = {"delta.enableDeletionVectors": "true", "lakeward.mergeOnRead.fraction": "1"}
    lake.create("d", {"id": "int64", "x": "int64"})
    lake.create("v", {"id": "int64", "x": "int64"}, properties=vectors)
    lake.create("i", {"id": "int64", "x": "int64"}, format="iceberg")
    changes: dict[str, dict[str, tuple[set[Identity], set[Identity]]]] = {}
    rows_of: dict[tuple[str, frozenset[Identity]], list[int]] = {}
    done = refused = 0
    for number in range(1, 11):
        before = {name: _files(lake, name) for name in TABLES}
        versions = _versions(lake)
        if changes and choose.random() < 0.4:
            # Any transaction of the past, undos too.
            asked = choose.choice(list(changes))
            expected = _expected(changes[asked], before)
            try:
                own = lake.undo(asked).transaction_id
            except Conflict:
                assert expected is None, asked
                assert versions == _versions(lake)
                refused += 1
                continue
            assert expected is not None, asked
            assert {name: _files(lake, name) for name in TABLES} == expected
            done += 1
        else:
            own = _step(lake, choose, number)
            if versions == _versions(lake):
                continue  # a restore to the newest version commits nothing, so the log has no id
        after = {name: _files(lake, name) for name in TABLES}
        changes[own] = {
            name: (after[name] - before[name], before[name] - after[name])
            for name in TABLES
            if after[name] != before[name]
        }
        for name in TABLES:
            state = name, frozenset(after[name])
            assert rows_of.setdefault(state, _ids(lake, name)) == _ids(lake, name)
    for name in TABLES[:2]:
        found = stranger_rows(lake.table(name).location)
        assert sorted(key[0] for key in found.elements()) == _ids(lake, name)
    assert sorted(stranger_arrow(lake, "i")["id"].to_pylist()) == _ids(lake, "i")
    assert lake.doctor().findings == ()
    return done, refused


def _expected(
    change: dict[str, tuple[set[Identity], set[Identity]]], now: dict[str, set[Identity]]
) -> dict[str, set[Identity]] | None:
    """The files after an undo; None for a conflict."""
    out = {name: set(files) for name, files in now.items()}
    for name, (added, removed) in change.items():
        if not added <= now[name]:
            return None
        paths = {path for path, _ in now[name] - added}
        if any(path in paths for path, _ in removed):
            return None
        out[name] = (now[name] - added) | removed
    return out
