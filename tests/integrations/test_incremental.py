"""Incremental computations: cursors are committed with results, and only changes are computed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict, InvalidInput, TableNotFound
from lakeward.integrations.incremental import Run, StateStore


@pytest.fixture(params=["delta", "iceberg"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> lw.Lake:
    found = lw.open(tmp_path / "lake")
    found.create("orders", "id int64, day int32, price int64", format=request.param)
    found.create("daily", "day int32, price int64", format="iceberg")
    return found


def _add(lake: lw.Lake, *rows: tuple[int, int, int]) -> None:
    names = ("id", "day", "price")
    lake.table("orders").append([dict(zip(names, row, strict=True)) for row in rows])


def _sums(run: Run) -> list[int]:
    """Compute the days that changed again; return them."""
    one = run.inputs["orders"]
    days = sorted(one.changed_values("day")["day"].to_pylist())
    if not days:
        return []
    listed = ", ".join(map(str, days))
    rows = one.snapshot.to_arrow(where=f"day IN ({listed})")
    sums = rows.group_by("day").aggregate([("price", "sum")]).rename_columns(["day", "price"])
    run.replace("daily", sums, where=f"day IN ({listed})")
    run.state = {"days": len(days)}
    return days


def _daily(lake: lw.Lake) -> dict[int, int]:
    rows = lake.table("daily").to_arrow().to_pylist()
    return {row["day"]: row["price"] for row in rows}


def test_only_groups_that_changed_are_computed_again(lake: lw.Lake) -> None:
    store = StateStore(lake)
    _add(lake, (1, 1, 10), (2, 1, 5), (3, 2, 7))
    with store.run("sums", inputs=["orders"]) as run:
        assert (run.number, run.before, run.inputs["orders"].since) == (1, None, None)
        assert _sums(run) == [1, 2]
    _add(lake, (4, 3, 1))
    with lake.transaction() as tx:
        tx.delete("orders", where="id = 3")
        tx.update("orders", set={"price": "6"}, where="id = 4")
    with store.run("sums", inputs=["orders"]) as run:
        assert run.before == {"days": 2}
        assert run.is_needed
        assert _sums(run) == [2, 3]
    assert _daily(lake) == {1: 15, 3: 6}
    with store.run("sums", inputs=["orders"]) as run:
        assert not run.is_needed
        assert _sums(run) == []
    cursor = store.cursors("sums")["orders"]
    assert (cursor.version, cursor.run) == (lake.table("orders").version, 3)
    runs = lake.table("state.runs").to_arrow().sort_by("run").to_pylist()
    assert [(r["since"], r["version"]) for r in runs] == [(None, 1), (1, 3), (3, 3)]
    assert runs[1]["output"] == "daily"
    found = lake.table("daily").history(limit=1)[0].transaction_id
    assert found == runs[1]["transaction_id"]


def test_a_failed_run_moves_no_cursor(lake: lw.Lake) -> None:
    store = StateStore(lake)
    _add(lake, (1, 1, 10))

    def fail() -> None:
        with store.run("sums", inputs=["orders"]) as run:
            _sums(run)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.cursors("sums") == {}
    assert _daily(lake) == {}


def test_of_two_runs_at_once_one_is_refused(lake: lw.Lake) -> None:
    store = StateStore(lake)
    for expected in (10, 20):
        _add(lake, (expected, 1, 10))

        def twice() -> None:
            with store.run("sums", inputs=["orders"]) as one:
                with store.run("sums", inputs=["orders"]) as other:
                    other.upsert("daily", _total(other), key="day")
                one.upsert("daily", _total(one), key="day")

        with pytest.raises(Conflict):
            twice()
        assert _daily(lake) == {1: expected}
    assert store.cursors("sums")["orders"].run == 2


def test_a_run_that_begins_while_another_one_ends_processes_no_change_twice(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(lake)
    seen: list[int] = []

    def compute() -> None:
        with store.run("ids", inputs=["orders"]) as run:
            one = run.inputs["orders"]
            rows = one.snapshot.to_arrow() if one.since is None else one.changes()
            ids = sorted(rows["id"].to_pylist())
            run.upsert("daily", [{"day": run.number, "price": len(ids)}], key="day")
        seen.extend(ids)

    _add(lake, (1, 1, 10))
    compute()
    _add(lake, (2, 1, 10))
    begin = lw.Lake.transaction

    def begin_late(own: lw.Lake, **given: Any) -> Any:
        monkeypatch.undo()
        _add(lake, (3, 1, 10))
        compute()
        return begin(own, **given)

    monkeypatch.setattr(lw.Lake, "transaction", begin_late)
    compute()
    assert seen == [1, 2, 3]
    assert store.cursors("ids")["orders"].version == lake.table("orders").version
    compute()
    assert seen == [1, 2, 3]


def test_a_run_whose_transaction_sees_an_older_version_of_an_input_is_refused(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = StateStore(lake)
    _add(lake, (1, 1, 10))
    pin = lw.Lake.snapshot

    def pin_late(own: lw.Lake, **given: Any) -> Any:
        monkeypatch.undo()
        _add(lake, (2, 1, 10))
        return pin(own, **given)

    def compute() -> None:
        with store.run("ids", inputs=["orders"]) as run:
            seen.append(run.tx.read("orders").num_rows)

    seen: list[int] = []
    monkeypatch.setattr(lw.Lake, "snapshot", pin_late)
    with pytest.raises(Conflict, match="at version 2, and its transaction at version 1"):
        compute()
    assert store.cursors("ids") == {}
    compute()
    assert seen == [1, 2]


def test_a_cursor_beyond_its_table_is_refused(lake: lw.Lake) -> None:
    store = StateStore(lake)
    _add(lake, (1, 1, 10))
    with store.run("ids", inputs=["orders"]):
        pass
    with lake.transaction() as tx:
        tx.update(store.cursors_table, set={"version": "9"}, where="input = 'orders'")
    wrong = pytest.raises(Conflict, match="has processed version 9")
    with wrong, store.run("ids", inputs=["orders"]):
        pass
    store.forget("ids")
    with store.run("ids", inputs=["orders"]) as run:
        assert run.inputs["orders"].since is None


def _total(run: Run) -> pa.Table:
    rows = run.inputs["orders"].snapshot.to_arrow()
    return rows.group_by("day").aggregate([("price", "sum")]).rename_columns(["day", "price"])


def test_a_table_made_anew_is_computed_from_its_start(lake: lw.Lake) -> None:
    store = StateStore(lake)
    _add(lake, (1, 1, 10))
    with store.run("sums", inputs=["orders"]) as run:
        _sums(run)
    lake.drop("orders")
    lake.create("orders", "id int64, day int32, price int64")
    _add(lake, (1, 1, 3))
    with store.run("sums", inputs=["orders"]) as run:
        assert run.inputs["orders"].since is None
        with pytest.raises(InvalidInput, match="not been processed"):
            run.inputs["orders"].changes()
        _sums(run)
    assert _daily(lake) == {1: 3}
    store.forget("sums")
    assert store.cursors("sums") == {}


def test_mistakes_are_told(lake: lw.Lake) -> None:
    store = StateStore(lake)
    with pytest.raises(InvalidInput, match="reads no table"), store.run("x", inputs=[]):
        pass
    with pytest.raises(TableNotFound), store.run("x", inputs=["nope"]):
        pass


def test_the_state_is_that_of_the_previous_run_whatever_its_inputs(lake: lw.Lake) -> None:
    store = StateStore(lake)
    for number, inputs in enumerate((["orders", "daily"], ["daily"], ["orders"], ["daily"])):
        with store.run("c", inputs=inputs) as run:
            assert run.before == (number or None)
            run.state = number + 1


def test_a_run_counts_all_rows_that_it_wrote_to_an_output(lake: lw.Lake) -> None:
    store = StateStore(lake)
    with store.run("c", inputs=["orders"]) as run:
        first = run.upsert("daily", [{"day": 1, "price": 1}, {"day": 2, "price": 2}], key="day")
        run.upsert("daily", [{"day": 2, "price": 3}, {"day": 3, "price": 3}], key="day")
        run.replace("daily", [{"day": 1, "price": 9}], where="day = 1")
        assert first.inserted == 2
    (row,) = lake.table(store.runs_table).to_arrow().to_pylist()
    assert (row["output"], row["inserted"], row["updated"], row["deleted"]) == ("daily", 4, 1, 1)
