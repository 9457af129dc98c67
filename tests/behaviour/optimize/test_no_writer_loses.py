"""A compaction gives way to writers, and no writer gives way to a compaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.model import steps
from tests.support.tables import table_of

_TABLE: Final = (
    table_of(id="int64", v="string", p="string")
    .partitioned("p")
    .rows(*({"id": [n, n + 10], "v": ["old", "old"], "p": ["a", "b"]} for n in range(4)))
)
WORK: Final[dict[str, Callable[[lw.Transaction, str], object]]] = {
    "delete": lambda tx, name: tx.delete(name, where="id = 1"),
    "update": lambda tx, name: tx.update(name, set={"v": "'new'"}, where="id = 1"),
    "merge": lambda tx, name: tx.merge(
        name, {"id": [1, 99], "v": ["new", "new"], "p": ["a", "a"]}, on="id"
    ),
    "overwrite": lambda tx, name: tx.overwrite(
        name, {"id": [1], "v": ["new"], "p": ["a"]}, where="id = 1"
    ),
}
AFTER: Final[dict[str, dict[int, str | None]]] = {
    "delete": {1: None},
    "update": {1: "new"},
    "merge": {1: "new", 99: "new"},
    "overwrite": {1: "new"},
}


def _rows(table: lw.Table) -> dict[int, str]:
    found = table.to_arrow().to_pylist()
    assert len({r["id"] for r in found}) == len(found), "a row is there twice"
    return {r["id"]: r["v"] for r in found}


def _expected(kind: str) -> dict[int, str]:
    start: dict[int, str | None] = {n + m: "old" for n in range(4) for m in (0, 10)}
    return {k: v for k, v in (start | AFTER[kind]).items() if v is not None}


@contextmanager
def at_step(step: str, do: Callable[[], object]) -> Iterator[None]:
    """Call a function once, when a step is first reached."""
    waiting = [do]

    def reached(name: str) -> None:
        if name == step and waiting:
            waiting.pop()()

    steps.observe(reached)
    try:
        yield
    finally:
        steps.observe(None)


@pytest.mark.parametrize("isolation", ["snapshot", "serializable", "read_committed"])
@pytest.mark.parametrize("kind", WORK)
def test_a_writer_that_began_before_a_compaction_commits(
    shared_lake: lw.Lake, name: str, kind: str, isolation: str
) -> None:
    table = _TABLE.make(shared_lake, name)
    with shared_lake.transaction(isolation=isolation) as tx:
        WORK[kind](tx, name)
        assert table.optimize().state == "done"
        table.append({"id": [50], "v": ["other"], "p": ["b"]})
        table.optimize(zorder=["id"])

    assert _rows(table) == _expected(kind) | {50: "other"}
    assert not shared_lake.doctor(tables=[name]).findings


@pytest.mark.formats("delta")
@pytest.mark.parametrize("kind", WORK)
def test_a_writer_that_marks_rows_commits_after_a_compaction(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    state = _TABLE.merging_on_read().options(properties={"lakeward.mergeOnRead.fraction": "0.9"})
    table = state.make(shared_lake, name)
    with shared_lake.transaction() as tx:
        WORK[kind](tx, name)
        table.optimize()

    assert _rows(table) == _expected(kind)


def test_writers_that_conflict_do_so_across_a_compaction(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.make(shared_lake, name)
    tx = shared_lake.transaction()
    WORK["update"](tx, name)
    table.optimize()
    table.update(set={"v": "'theirs'"}, where="id = 1")
    table.optimize()
    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.kind == "removed"
    assert _rows(table)[1] == "theirs"


def test_rows_added_and_compacted_meanwhile_are_still_a_conflict(
    shared_lake: lw.Lake, name: str
) -> None:
    table = _TABLE.make(shared_lake, name)
    tx = shared_lake.transaction()
    tx.delete(name, where="id < 3")
    table.append({"id": [-1], "v": ["theirs"], "p": ["a"]})
    table.optimize()
    with pytest.raises(Conflict) as caught:
        tx.commit()

    assert caught.value.kind == "added"
    assert len(_rows(table)) == 9


def test_files_removed_by_their_paths_are_gone_after_a_compaction(
    shared_lake: lw.Lake, name: str
) -> None:
    table = _TABLE.make(shared_lake, name)
    path = next(f.path for f in table.files(where="p = 'a' AND id = 1"))
    with shared_lake.transaction() as tx:
        tx.remove_files(name, [path])
        table.optimize()

    assert _rows(table) == _expected("delete")
    assert not shared_lake.doctor(tables=[name]).findings
    assert table.optimize().state == "done"
    assert _rows(table) == _expected("delete")


@pytest.mark.parametrize("kind", WORK)
def test_a_compaction_leaves_out_what_a_writer_changed(
    shared_lake: lw.Lake, name: str, kind: str
) -> None:
    table = _TABLE.make(shared_lake, name)

    def write() -> None:
        with shared_lake.transaction() as tx:
            WORK[kind](tx, name)

    with at_step("move.staged", write):
        done = table.optimize()

    assert done.job is not None
    assert done.job.done.facts["given_way"] == 1
    assert done.job.done.facts["groups"] == 1
    assert len(table.files(where="p = 'b'")) == 1
    assert len(table.files(where="p = 'a'")) > 1
    assert _rows(table) == _expected(kind)
    assert not shared_lake.doctor(tables=[name]).findings


def test_a_compaction_leaves_an_altered_or_locked_table_alone(
    shared_lake: lw.Lake, name: str
) -> None:
    table = _TABLE.make(shared_lake, name)
    with at_step("move.staged", lambda: table.alter().add_column("more", "string").commit()):
        done = table.optimize()
    assert done.job is not None
    assert done.job.done.facts["groups"] == 0

    with shared_lake.transaction(locks={name: "write"}) as tx:
        held = table.optimize()
        tx.append(name, {"id": [50], "v": ["x"], "p": ["a"]})
    assert held.job is not None
    assert held.job.done.facts["groups"] == 0
    assert len(_rows(table)) == 9


def test_unique_keys_hold_across_a_compaction(shared_lake: lw.Lake, name: str) -> None:
    table = _TABLE.options(constraints={"key": lw.Unique("id")}).make(shared_lake, name)
    with shared_lake.transaction() as tx:
        tx.update(name, set={"v": "'new'"}, where="id = 1")
        table.optimize()
    assert _rows(table) == _expected("update")

    with pytest.raises(ConstraintViolation):
        table.append({"id": [1], "v": ["twice"], "p": ["a"]})


@pytest.mark.formats("delta")
@pytest.mark.local
def test_a_compaction_writes_no_change_rows(shared_lake: lw.Lake, name: str) -> None:
    feed = {"delta.enableChangeDataFeed": "true"}
    table = _TABLE.options(properties=feed).make(shared_lake, name)
    table.optimize()
    log = Path(table.location.removeprefix("file://"), "_delta_log")
    lines = (log / f"{table.version:020d}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    moved = [a.get("add") or a["remove"] for a in actions if "add" in a or "remove" in a]
    assert len(moved) == 10
    assert not any(m["dataChange"] for m in moved)
    assert not any("cdc" in a for a in actions)
