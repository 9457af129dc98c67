"""Which changes stand in each other's way, and which do not.

Of each pair, one transaction does its work and waits; the other one commits; then the first
commits. The table has two partitions of one file each, `a` and `b`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.lakes import append, data_files

Work: TypeAlias = Callable[[lw.Transaction, str, lw.Lake], object]
Row: TypeAlias = tuple[int, str]


def _files(lake: lw.Lake, name: str, part: str) -> list[str]:
    return [f.path for f in lake.table(name).at(version=1).files(where=f"p = '{part}'")]


def _rows(part: str, number: int) -> dict[str, list[object]]:
    return {"id": [number], "p": [part]}


WORK: Final[dict[str, Work]] = {
    "append a": lambda tx, name, lake: tx.append(name, _rows("a", 10)),
    "append b": lambda tx, name, lake: tx.append(name, _rows("b", 20)),
    "overwrite all": lambda tx, name, lake: tx.overwrite(name, _rows("c", 30)),
    "overwrite a": lambda tx, name, lake: tx.overwrite(name, _rows("a", 40), where="p = 'a'"),
    "overwrite b": lambda tx, name, lake: tx.overwrite(name, _rows("b", 50), where="p = 'b'"),
    "delete a": lambda tx, name, lake: tx.delete(name, where="p = 'a'"),
    "delete b": lambda tx, name, lake: tx.delete(name, where="p = 'b'"),
    "delete row of a": lambda tx, name, lake: tx.delete(name, where="id = 1"),
    "remove file a": lambda tx, name, lake: tx.remove_files(name, _files(lake, name, "a")),
    "remove file b": lambda tx, name, lake: tx.remove_files(name, _files(lake, name, "b")),
}

_BASE: Final[list[Row]] = [(1, "a"), (2, "a"), (3, "b"), (4, "b")]
_FILES: Final = {part: [row for row in _BASE if row[1] == part] for part in "ab"}

EFFECT: Final[dict[str, Callable[[list[Row]], list[Row]]]] = {
    "append a": lambda rows: [*rows, (10, "a")],
    "append b": lambda rows: [*rows, (20, "b")],
    "overwrite all": lambda rows: [(30, "c")],
    "overwrite a": lambda rows: [*(r for r in rows if r[1] != "a"), (40, "a")],
    "overwrite b": lambda rows: [*(r for r in rows if r[1] != "b"), (50, "b")],
    "delete a": lambda rows: [r for r in rows if r[1] != "a"],
    "delete b": lambda rows: [r for r in rows if r[1] != "b"],
    "delete row of a": lambda rows: [r for r in rows if r[0] != 1],
    "remove file a": lambda rows: [r for r in rows if r not in _FILES["a"]],
    "remove file b": lambda rows: [r for r in rows if r not in _FILES["b"]],
}

_EVERYTHING: Final = frozenset(WORK)
_TOUCHES_A: Final = frozenset(
    {"overwrite all", "overwrite a", "delete a", "delete row of a", "remove file a"}
)
_TOUCHES_B: Final = frozenset({"overwrite all", "overwrite b", "delete b", "remove file b"})

CONFLICTS: Final[dict[str, frozenset[str]]] = {
    "append a": frozenset(),
    "append b": frozenset(),
    "overwrite all": _EVERYTHING,
    "overwrite a": _TOUCHES_A | {"append a"},
    "overwrite b": _TOUCHES_B | {"append b"},
    "delete a": _TOUCHES_A | {"append a"},
    "delete b": _TOUCHES_B | {"append b"},
    # By the id's bounds, no other file that appears can hold the row.
    "delete row of a": _TOUCHES_A,
    "remove file a": _TOUCHES_A,
    "remove file b": _TOUCHES_B,
}
"""What each kind of work, committing late, cannot stand to find committed meanwhile."""


def _cases() -> Iterator[Any]:
    """All pairs; of each late work, one that conflicts and one that does not are representative."""
    for late in WORK:
        seen: set[bool] = set()
        for first in WORK:
            conflicts = first in CONFLICTS[late]
            marks = () if conflicts in seen else (pytest.mark.representative,)
            seen.add(conflicts)
            yield pytest.param(late, first, marks=marks, id=f"{late}-{first}")


@pytest.mark.one_pair
@pytest.mark.parametrize(("late", "first"), list(_cases()))
def test_late_work_conflicts_only_with_what_touched_the_same(
    shared_lake: lw.Lake, name: str, late: str, first: str
) -> None:
    shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    append(shared_lake, name, {"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"]})
    waiting = shared_lake.transaction()
    WORK[late](waiting, name, shared_lake)
    with shared_lake.transaction() as other:
        WORK[first](other, name, shared_lake)
    table = shared_lake.table(name)
    between = table.to_arrow().to_pylist()

    if first in CONFLICTS[late]:
        with pytest.raises(Conflict) as caught:
            waiting.commit()
        assert caught.value.table == name
        assert caught.value.version == 2
        assert caught.value.retryable
        assert table.version == 2
        assert table.to_arrow().to_pylist() == between
        known = {f.path for v in (1, 2) for f in table.at(version=v).files()}
        assert data_files(shared_lake, name) == known
    else:
        waiting.commit()
        assert table.version == 3
        assert _sorted(table) == _serially(first, late)


def _serially(*work: str) -> list[Row]:
    """The rows when the same work is done one after the other."""
    rows = list(_BASE)
    for step in work:
        rows = EFFECT[step](rows)
    return sorted(rows)


def _sorted(table: lw.Table) -> list[Row]:
    return sorted((row["id"], row["p"]) for row in table.to_arrow().to_pylist())


@pytest.mark.parametrize(("late", "conflict"), [("id = 1", True), ("id = 100", False)])
def test_files_are_told_apart_by_their_bounds(
    shared_lake: lw.Lake, name: str, late: str, *, conflict: bool
) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": range(10)})
    append(shared_lake, name, {"id": range(100, 110)})
    tx = shared_lake.transaction()
    tx.delete(name, where=late)
    with shared_lake.transaction() as other:
        other.delete(name, where="id = 5")

    if conflict:
        with pytest.raises(Conflict):
            tx.commit()
    else:
        tx.commit()
        assert shared_lake.table(name).to_arrow().num_rows == 18


def test_two_conditions_that_touch_no_common_row_but_one_file_conflict(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": range(10)})
    tx = shared_lake.transaction()
    tx.delete(name, where="id = 1")
    with shared_lake.transaction() as other:
        other.delete(name, where="id = 9")

    with pytest.raises(Conflict):
        tx.commit()
    assert shared_lake.table(name).to_arrow().num_rows == 9


def test_an_empty_scope_conflicts_with_rows_that_appear_in_it(
    shared_lake: lw.Lake, name: str
) -> None:
    """Both find nothing to replace and would both insert: the second must notice the first."""
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})
    tx = shared_lake.transaction()
    tx.overwrite(name, {"id": [7]}, where="id = 7")
    with shared_lake.transaction() as other:
        other.overwrite(name, {"id": [7]}, where="id = 7")

    with pytest.raises(Conflict):
        tx.commit()
    assert sorted(shared_lake.table(name).to_arrow()["id"].to_pylist()) == [1, 7]


def test_appends_never_conflict_however_many_come_between(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    waiting = [shared_lake.transaction() for _ in range(5)]
    for number, tx in enumerate(waiting):
        tx.append(name, {"id": [number]})
    for tx in reversed(waiting):
        tx.commit()

    assert shared_lake.table(name).version == 5
    assert sorted(shared_lake.table(name).to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4]
