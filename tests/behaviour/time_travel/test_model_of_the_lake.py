"""Random work on two tables: every version reads as a model in plain lists says."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeward as lw
from lakeward.errors import Conflict

pytestmark = pytest.mark.slow

Row: TypeAlias = tuple[int, str | None]
Rows: TypeAlias = list[Row]

_NUMBERS = itertools.count()
_PARTS = st.sampled_from(["a", "b/c", None])
_ROWS = st.lists(st.tuples(st.integers(0, 9), _PARTS), max_size=4)
_WHERE: dict[str, Callable[[Row], bool]] = {
    "id < 5": lambda row: row[0] < 5,
    "id = 3": lambda row: row[0] == 3,
    "p = 'a'": lambda row: row[1] == "a",
    "p IS NULL": lambda row: row[1] is None,
    "p = 'a' AND id >= 5": lambda row: row[1] == "a" and row[0] >= 5,
    "NOT (p = 'a')": lambda row: row[1] is not None and row[1] != "a",
    "id IN (1, 2) OR p = 'b/c'": lambda row: row[0] in (1, 2) or row[1] == "b/c",
}
_STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 1), _ROWS),
    st.tuples(st.just("overwrite"), st.integers(0, 1), _ROWS),
    st.tuples(st.just("replace"), st.integers(0, 1), st.sampled_from(sorted(_WHERE)), _ROWS),
    st.tuples(st.just("delete"), st.integers(0, 1), st.sampled_from(sorted(_WHERE))),
    st.tuples(st.just("forget"), st.integers(0, 1)),
)
_TRANSACTION = st.tuples(st.sampled_from(["commit", "roll back"]), st.lists(_STEP, max_size=4))


@pytest.mark.parametrize("partitioned", [False, True])
@settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(work=st.lists(_TRANSACTION, min_size=2, max_size=6))
def test_every_version_reads_as_it_did_when_it_was_new(
    shared_lake: lw.Lake, work: list[tuple[str, list[Any]]], *, partitioned: bool
) -> None:
    names = [f"space.model_{next(_NUMBERS)}" for _ in range(2)]
    for name in names:
        by = ["p"] if partitioned else []
        shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=by)
    versions: list[list[Rows]] = [[[]], [[]]]
    for end, steps in work:
        now = [list(past[-1]) for past in versions]
        touched = set()
        tx = shared_lake.transaction()
        for step in steps:
            index = step[1]
            _do(tx, names[index], step)
            now[index] = _modelled(now[index], step)
            touched.add(index)
            assert _rows(tx.read(names[index])) == sorted(now[index], key=_key)
        if end == "commit":
            tx.commit()
            for index in touched:
                versions[index].append(now[index])
        else:
            tx.rollback()

    for name, past in zip(names, versions, strict=True):
        table = shared_lake.table(name)
        assert table.version == len(past) - 1
        for version, rows in enumerate(past):
            assert _rows(table.at(version=version).to_arrow()) == sorted(rows, key=_key)


def _do(tx: lw.Transaction, name: str, step: tuple[Any, ...]) -> None:
    match step:
        case ("append", _, rows):
            tx.append(name, _data(rows))
        case ("overwrite", _, rows):
            tx.overwrite(name, _data(rows))
        case ("replace", _, where, rows):
            tx.overwrite(name, _data([r for r in rows if _WHERE[where](r)]), where=where)
        case ("delete", _, where):
            tx.delete(name, where=where)
        case ("forget", _):
            tx.delete(name, where="true")


def _modelled(rows: Rows, step: tuple[Any, ...]) -> Rows:
    match step:
        case ("append", _, new):
            return [*rows, *new]
        case ("overwrite", _, new):
            return list(new)
        case ("replace", _, where, new):
            fits = _WHERE[where]
            return [*(r for r in rows if not fits(r)), *(r for r in new if fits(r))]
        case ("delete", _, where):
            return [r for r in rows if not _WHERE[where](r)]
        case _:
            return []


def _data(rows: Rows) -> dict[str, list[Any]]:
    return {"id": [r[0] for r in rows], "p": [r[1] for r in rows]}


def _rows(found: Any) -> Rows:
    rows = zip(found["id"].to_pylist(), found["p"].to_pylist(), strict=True)
    return sorted(rows, key=_key)


def _key(row: Row) -> tuple[int, str]:
    return row[0], row[1] or ""


@settings(
    max_examples=20,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    pairs=st.lists(st.tuples(_STEP, _STEP, st.booleans()), min_size=1, max_size=4),
)
def test_two_transactions_at_once_are_as_if_one_came_after_the_other(
    shared_lake: lw.Lake, pairs: list[tuple[Any, Any, bool]]
) -> None:
    """Whatever both do to one table, the late one conflicts or its work is done on top."""
    name = f"space.model_{next(_NUMBERS)}"
    table = shared_lake.create(name, {"id": "int64", "p": "string"}, partition_by=["p"])
    with shared_lake.transaction() as tx:
        tx.append(name, _data(list(_start())))
    rows = list(_start())
    for early, late, reads in pairs:
        first, second = shared_lake.transaction(), shared_lake.transaction()
        if reads:
            second.read(name)
        _do(first, name, early)
        _do(second, name, late)
        first.commit()
        rows = _modelled(rows, early)
        try:
            second.commit()
        except Conflict:
            pass
        else:
            rows = _modelled(rows, late)
        assert _rows(table.to_arrow()) == sorted(rows, key=_key)


def _start() -> Iterator[Row]:
    yield from ((n, p) for n in (1, 3, 7) for p in ("a", "b/c", None))
