"""Merges and deletions of all shapes against a model: rows as dictionaries, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeward as lw
from lakeward.engines.arrow import source
from lakeward.errors import ConstraintViolation
from lakeward.write.rows import apply as row_apply
from lakeward.write.rows import find as row_parts
from lakeward.write.rows import work as row_work
from tests.behaviour.lakes import append
from tests.support.inside import context_of

Row: TypeAlias = dict[str, Any]
Clause: TypeAlias = tuple[Callable[[Row, Row], bool | None], Callable[[Row, Row], Row | None]]
"""When it holds, and what becomes of the row; for rows of the table and of the data."""

_SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
_DATA = pa.schema([*_SCHEMA, ("op", pa.int64())])


@dataclass(frozen=True)
class Choice:
    """A clause, or several, as users write them and as the model has them."""

    given: Any
    clauses: Sequence[Clause]
    reads_op: bool = False


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


def _more(a: int | None, b: int) -> bool | None:
    return None if a is None else a > b


def _always(_t: Row, _s: Row) -> bool:
    return True


def _gone(_t: Row, _s: Row) -> None:
    return None


def _all(t: Row, s: Row) -> Row:
    return {**t, "v": s["v"], "s": s["s"]}


_MATCHED = [
    Choice(None, []),
    Choice("update", [(_always, _all)]),
    Choice("delete", [(_always, _gone)]),
    Choice(
        {"v": "target.v + source.v", "s": "source.s"},
        [(_always, lambda t, s: {**t, "v": _plus(t["v"], s["v"]), "s": s["s"]})],
    ),
    Choice(
        [lw.When("source.op = 1", "delete"), lw.When("target.v > 2", {"s": "'m'"})],
        [
            (lambda t, s: s["op"] == 1, _gone),
            (lambda t, s: _more(t["v"], 2), lambda t, s: {**t, "s": "m"}),
        ],
        reads_op=True,
    ),
    Choice(
        [lw.When("op = 0", "update"), "delete"],
        [(lambda t, s: s["op"] == 0, _all), (_always, _gone)],
        reads_op=True,
    ),
]
_NOT_MATCHED = [
    Choice(None, []),
    Choice("insert", [(_always, lambda t, s: s)]),
    Choice(lw.When("source.op = 1", "insert"), [(lambda t, s: s["op"] == 1, lambda t, s: s)], True),
    Choice(
        {"id": "source.id", "v": "source.v * 2"},
        [(_always, lambda t, s: {"id": s["id"], "v": _plus(s["v"], s["v"]), "s": None})],
    ),
]
_ALONE = [
    Choice(None, []),
    Choice("delete", [(_always, _gone)]),
    Choice(lw.When("target.v > 2", "delete"), [(lambda t, s: _more(t["v"], 2), _gone)]),
    Choice(
        [lw.When("s = 'a'", {"v": "v + 100"}), lw.When("v > 3", "delete")],
        [
            (
                lambda t, s: None if t["s"] is None else t["s"] == "a",
                lambda t, s: {**t, "v": _plus(t["v"], 100)},
            ),
            (lambda t, s: _more(t["v"], 3), _gone),
        ],
    ),
]
_ON: list[tuple[Any, Callable[[Row, Row], bool]]] = [
    ("id", lambda t, s: t["id"] is not None and t["id"] == s["id"]),
    (
        ["s", "id"],
        lambda t, s: None not in (t["id"], t["s"]) and (t["id"], t["s"]) == (s["id"], s["s"]),
    ),
    (
        "target.id = source.id AND target.v < source.v",
        lambda t, s: (
            None not in (t["id"], t["v"], s["v"]) and t["id"] == s["id"] and t["v"] < s["v"]
        ),
    ),
]

_number = st.none() | st.integers(0, 6)
_rows = st.lists(
    st.fixed_dictionaries({"id": _number, "v": _number, "s": st.sampled_from([None, "a", "b"])}),
    max_size=6,
)
_data = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 8),
            "v": _number,
            "s": st.sampled_from(["a", "b", "c"]),
            "op": st.integers(0, 1),
        }
    ),
    max_size=5,
)


class TwiceError(Exception):
    """A row would be changed twice."""


def _merged(
    table: list[Row], data: list[Row], on: int, chosen: tuple[Choice, Choice, Choice]
) -> list[Row]:
    matched, not_matched, alone = (c.clauses for c in chosen)
    is_partner = _ON[on][1]
    plain_delete = chosen[0].given == "delete"
    out: list[Row] = []
    for row in table:
        partners = [s for s in data if is_partner(row, s)]
        done = [d for s in partners if (d := _first(matched, row, s)) is not None]
        if len(done) > 1 and not plain_delete:
            raise TwiceError
        if not partners:
            done = [d for d in [_first(alone, row, {})] if d is not None]
        out += [row] if not done else [r for r in done[0] if r is not None]
    for s in data:
        if not any(is_partner(row, s) for row in table):
            out += [r for r in _first(not_matched, {}, s) or [] if r is not None]
    return [{n: row[n] for n in _SCHEMA.names} for row in out]


def _first(clauses: Sequence[Clause], target: Row, source: Row) -> list[Row | None] | None:
    for holds, becomes in clauses:
        if holds(target, source) is True:
            return [becomes(target, source)]
    return None


def _counted(rows: list[Row]) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[n] for n in _SCHEMA.names) for row in rows)


@contextmanager
def allowed(lake: lw.Lake, memory: int) -> Iterator[None]:
    """Let merges take so much memory; one row's index takes more than a byte."""
    with pytest.MonkeyPatch.context() as patch:
        small = replace(context_of(lake), merge_memory=memory)
        patch.setattr(lake, "_transactions", replace(lake._transactions, context=small))
        yield


@contextmanager
def small_parts() -> Iterator[None]:
    """Work on two rows at a time, and note no row of a file until it is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "_BATCH_ROWS", 2)
        patch.setattr(row_parts, "PART_BYTES", 1)
        patch.setattr(row_apply, "_HELD", 0)
        patch.setattr(row_work, "_NEW_BYTES", 60)
        yield


@pytest.mark.local
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.lists(_rows, min_size=1, max_size=3),
    in_place=st.booleans(),
    by_parts=st.booleans(),
    memory=st.sampled_from([2**30, 1, 500]),
    streamed=st.booleans(),
    data=_data,
    on=st.integers(0, len(_ON) - 1),
    chosen=st.tuples(*map(st.sampled_from, (_MATCHED, _NOT_MATCHED, _ALONE))).filter(
        lambda c: any(choice.given is not None for choice in c)
    ),
)
def test_a_merge_does_what_its_model_does(
    shared_lake: lw.Lake,
    new_name: Callable[[], str],
    table_format: str,
    files: list[list[Row]],
    in_place: bool,
    by_parts: bool,
    memory: int,
    streamed: bool,
    data: list[Row],
    on: int,
    chosen: tuple[Choice, Choice, Choice],
) -> None:
    name = new_name()
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1.0}
    marked = in_place and table_format == "delta"
    table = shared_lake.create(name, _SCHEMA, policy=policy if marked else None)
    for rows in files:
        append(shared_lake, name, pa.Table.from_pylist(rows, schema=_SCHEMA))
    before = [row for rows in files for row in rows]
    rows_given = pa.Table.from_pylist(data, schema=_DATA)
    if not any(c.reads_op for c in chosen):
        rows_given = rows_given.drop_columns(["op"])

    matched, not_matched, alone = (c.given for c in chosen)
    clauses = {"matched": matched, "not_matched": not_matched, "not_matched_by_source": alone}
    with allowed(shared_lake, memory), small_parts() if by_parts else nullcontext():
        tx = shared_lake.transaction()
        given: Any = rows_given.to_reader(2) if streamed else rows_given
        try:
            expected = _merged(before, data, on, chosen)
        except TwiceError:
            with pytest.raises(ConstraintViolation, match="Two rows of the data"):
                tx.merge(name, given, on=_ON[on][0], **clauses)
            assert _counted(table.to_arrow().to_pylist()) == _counted(before)
            return
        done = tx.merge(name, given, on=_ON[on][0], **clauses)
        tx.commit()

    assert _counted(table.to_arrow().to_pylist()) == _counted(expected)
    assert len(expected) == len(before) + (done.inserted or 0) - (done.deleted or 0)


_DELETED: list[tuple[str, Callable[[Row], bool | None]]] = [
    ("v > 2", lambda r: _more(r["v"], 2)),
    ("id IS NULL OR s = 'a'", lambda r: r["id"] is None or r["s"] == "a"),
    ("id >= 0", lambda r: _more(r["id"], -1)),
    ("v < 0", lambda _: False),
]


@pytest.mark.local
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.lists(_rows, min_size=1, max_size=3),
    staged=_rows,
    in_place=st.booleans(),
    with_feed=st.booleans(),
    by_parts=st.booleans(),
    partitioned=st.booleans(),
    deleted=st.lists(st.integers(0, len(_DELETED) - 1), min_size=1, max_size=2),
)
def test_a_deletion_does_what_its_model_does(
    shared_lake: lw.Lake,
    new_name: Callable[[], str],
    table_format: str,
    files: list[list[Row]],
    staged: list[Row],
    in_place: bool,
    with_feed: bool,
    by_parts: bool,
    partitioned: bool,
    deleted: list[int],
) -> None:
    name = new_name()
    is_delta = table_format == "delta"
    policy: dict[str, Any] = {"change_data_feed": True} if with_feed and is_delta else {}
    if in_place and is_delta:
        policy |= {"merge_on_read": True, "merge_on_read_fraction": 1.0}
    table = shared_lake.create(
        name, _SCHEMA, policy=policy, partition_by=["s"] if partitioned else []
    )
    for rows in files:
        append(shared_lake, name, pa.Table.from_pylist(rows, schema=_SCHEMA))
    before = [row for rows in files for row in rows]
    expected = [*before, *staged]
    with small_parts() if by_parts else nullcontext(), shared_lake.transaction() as tx:
        if staged:
            tx.append(name, pa.Table.from_pylist(staged, schema=_SCHEMA))
        for n in deleted:
            where, goes = _DELETED[n]
            tx.delete(name, where=where)
            expected = [row for row in expected if goes(row) is not True]

    assert _counted(table.to_arrow().to_pylist()) == _counted(expected)
    commit = table.history()[0]
    if not staged and commit.metrics and "numDeletedRows" in commit.metrics:
        assert commit.metrics["numDeletedRows"] == len(before) - len(expected)


@pytest.mark.local
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    files=st.lists(_rows, min_size=1, max_size=3),
    in_place=st.booleans(),
    by_parts=st.booleans(),
    data=_data,
    key=st.sampled_from([["id"], ["s", "id"]]),
)
def test_an_upsert_by_key_replaces_the_rows_that_its_model_does(
    shared_lake: lw.Lake,
    new_name: Callable[[], str],
    table_format: str,
    files: list[list[Row]],
    in_place: bool,
    by_parts: bool,
    data: list[Row],
    key: list[str],
) -> None:
    name = new_name()
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1.0}
    marked = in_place and table_format == "delta"
    table = shared_lake.create(name, _SCHEMA, policy=policy if marked else None)
    for rows in files:
        append(shared_lake, name, pa.Table.from_pylist(rows, schema=_SCHEMA))
    before = [row for rows in files for row in rows]
    newest = {tuple(row[n] for n in key): row for row in data}
    kept = [row for row in before if tuple(row[n] for n in key) not in newest]
    expected = [*kept, *(row for row in newest.values() if row["op"] == 0)]
    changes = [
        {**{n: row[n] for n in _SCHEMA.names}, "_change_type": "delete" if row["op"] else "update"}
        for row in data
    ]

    with (
        small_parts() if by_parts else nullcontext(),
        shared_lake.sink(name, writer_id="w", mode="upsert", key=key) as sink,
    ):
        sink.write(changes)
        sink.commit_epoch(1)

    assert _counted(table.to_arrow().to_pylist()) == _counted(expected)
