"""What a violation leads to: rows are refused, quarantined or only reported, always recorded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.log import violations
from tests.behaviour.lakes import append, data_files, ids


def make(lake: lw.Lake, name: str, reaction: str, **options: Any) -> None:
    lake.create(
        name,
        "id int64 not null, amount double",
        constraints={
            "key": lw.Unique("id", on_violation=reaction),
            "positive": lw.Check("amount > 0", on_violation=reaction),
        },
        **options,
    )
    append(lake, name, {"id": [1, 2], "amount": [1.0, 2.0]})


def rows(*pairs: tuple[int, float | None]) -> pa.Table:
    return pa.table({"id": [i for i, _ in pairs], "amount": [float(a) for _, a in pairs if a]})


def test_rows_that_are_only_warned_about_are_committed(shared_lake: lw.Lake, name: str) -> None:
    make(shared_lake, name, "warn")

    with shared_lake.transaction() as tx:
        tx.append(name, rows((2, 5), (3, -1), (4, 1)))

    assert ids(shared_lake, name) == [1, 2, 2, 3, 4]
    found = {v.constraint: v for v in shared_lake.violations(table=name)}
    assert {n: (v.action, v.count) for n, v in found.items()} == {
        "key": ("warn", 1),
        "positive": ("warn", 1),
    }
    assert found["positive"].sample == ({"id": 3, "amount": -1.0},)
    assert found["key"].transaction_id == tx.transaction_id


def test_rows_are_quarantined_in_the_same_transaction(shared_lake: lw.Lake, name: str) -> None:
    make(shared_lake, name, "quarantine")

    with shared_lake.transaction() as tx:
        tx.append(name, rows((2, 5), (3, -1), (4, 1), (4, 7)))
    result = tx.commit()

    aside = f"{name}__quarantine"
    assert ids(shared_lake, name) == [1, 2, 4]
    table = shared_lake.table(aside)
    assert table.format == shared_lake.table(name).format
    found = sorted(table.to_arrow().to_pylist(), key=lambda row: (row["id"], row["amount"]))
    assert [(r["id"], r["amount"], r["_constraint"]) for r in found] == [
        (2, 5.0, "key"),
        (3, -1.0, "positive"),
        (4, 7.0, "key"),
    ]
    assert {r["_transaction"] for r in found} == {tx.transaction_id}
    assert "is not true" in found[1]["_reason"]
    assert set(result.versions) == {name, aside}
    assert {v.constraint: (v.action, v.count) for v in shared_lake.violations(table=name)} == {
        "key": ("quarantine", 2),
        "positive": ("quarantine", 1),
    }
    assert data_files(shared_lake, name) == {f.path for f in shared_lake.table(name).files()}


def test_a_second_quarantine_goes_to_the_same_table(shared_lake: lw.Lake, name: str) -> None:
    make(shared_lake, name, "quarantine")

    for key in (7, 8):
        append(shared_lake, name, rows((1, 1), (key, 1)))

    assert ids(shared_lake, name) == [1, 2, 7, 8]
    assert ids(shared_lake, f"{name}__quarantine") == [1, 1]


def test_the_quarantine_gets_the_columns_that_its_table_gets(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(
        name,
        {"id": "int64", "n": "int32", "s": "string"},
        constraints={"key": lw.Unique("id", on_violation="quarantine")},
    )
    append(shared_lake, name, {"id": [1, 1], "n": [1, 2], "s": ["a", "b"]})
    change = shared_lake.table(name).alter().change_type("n", "int64").rename_column("s", "r")
    change.add_column("more", "string").commit()

    append(shared_lake, name, {"id": [1, 2], "n": [2**40, 5], "r": ["c", "d"], "more": ["x", "y"]})

    found = shared_lake.table(f"{name}__quarantine").to_arrow(columns=["n", "s", "r", "more"])
    assert sorted(found.to_pylist(), key=lambda row: row["n"]) == [
        {"n": 2, "s": "b", "r": None, "more": None},
        {"n": 2**40, "s": None, "r": "c", "more": "x"},
    ]
    assert ids(shared_lake, name) == [1, 2]


def test_columns_whose_names_the_quarantine_uses_are_stored_under_others(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(
        name,
        {"id": "int64", "_reason": "string", "_Transaction": "int64", "n": "int64"},
        constraints={"key": lw.Unique("id", on_violation="quarantine")},
    )
    given = {"id": [1, 1], "_reason": ["a", "b"], "_Transaction": [1, 2], "n": [3, 4]}
    append(shared_lake, name, given)
    table = shared_lake.table(name)
    for kind, value in (("string", "x"), ("int64", 5), ("boolean", True)):
        table.alter().drop_column("n").commit()
        table.alter().add_column("n", kind).commit()
        append(shared_lake, name, given | {"n": [value, value]})

    found = shared_lake.table(f"{name}__quarantine").to_arrow()
    rows = found.select(["n", "n__2", "n__3", "_reason__2", "_Transaction__2"]).to_pylist()
    expected = [
        (4, None, None, "b", 2),
        *[(None, "x", None, "a", 1), (None, "x", None, "b", 2)],
        *[(5, None, None, "a", 1), (5, None, None, "b", 2)],
        *[(None, None, True, "a", 1), (None, None, True, "b", 2)],
    ]
    assert sorted(map(str, (tuple(r.values()) for r in rows))) == sorted(map(str, expected))
    assert all("the key (id)" in reason for reason in found["_reason"].to_pylist())
    assert ids(shared_lake, name) == [1]


@pytest.mark.parametrize("length", [116, 117, 128])
def test_the_quarantine_of_a_table_with_a_long_name_can_be_read(lake: lw.Lake, length: int) -> None:
    for first in "ab":
        long = ("t" * (length - 1)) + first
        make(lake, long, "quarantine")
        append(lake, long, rows((1, 1), (3, 1)))

    found = [t.name for t in lake.tables() if t.name.endswith("__quarantine")]
    assert len(found) == 2
    assert [ids(lake, aside) for aside in found] == [[1], [1]]


def test_rows_that_are_all_bad_leave_the_table_as_it_is(shared_lake: lw.Lake, name: str) -> None:
    make(shared_lake, name, "quarantine")

    append(shared_lake, name, rows((1, 1), (2, -1)))

    assert ids(shared_lake, name) == [1, 2]
    assert ids(shared_lake, f"{name}__quarantine") == [1, 2]


def test_rows_that_stay_beside_a_deletion_are_kept_and_new_ones_go(
    shared_lake: lw.Lake, name: str
) -> None:
    make(shared_lake, name, "quarantine")

    with shared_lake.transaction() as tx:
        tx.append(name, rows((2, 9)))
        tx.delete(name, where="id = 1")

    assert shared_lake.table(name).to_arrow().to_pylist() == [{"id": 2, "amount": 2.0}]
    assert ids(shared_lake, f"{name}__quarantine") == [2]


def test_a_foreign_key_quarantines_children(
    shared_lake: lw.Lake, new_name: Callable[[], str]
) -> None:
    parents, children = new_name(), new_name()
    shared_lake.create(parents, {"id": "int64"}, constraints={"key": lw.Unique("id")})
    key = lw.ForeignKey("id", references=parents, on_violation="quarantine")
    shared_lake.create(children, {"id": "int64"}, constraints={"parent": key})
    append(shared_lake, parents, {"id": [1, 2]})

    append(shared_lake, children, {"id": [1, 3]})

    assert ids(shared_lake, children) == [1]
    assert ids(shared_lake, f"{children}__quarantine") == [3]
    with pytest.raises(ConstraintViolation), shared_lake.transaction() as tx:
        tx.delete(parents, where="id = 1")


def test_a_sink_quarantines_rows(shared_lake: lw.Lake, name: str) -> None:
    make(shared_lake, name, "quarantine")

    with shared_lake.sink(name, writer_id="w") as sink:
        sink.write(rows((1, 1), (3, 3)))
        sink.commit_epoch(1)

    assert ids(shared_lake, name) == [1, 2, 3]
    assert ids(shared_lake, f"{name}__quarantine") == [1]


def test_required_columns_and_checks_that_fail_are_recorded(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, "id int64 not null, n int64", constraints={"positive": "n > 0"})
    for bad in ({"id": [1, None], "n": [1, 1]}, {"id": [1, 2], "n": [-1, 0]}):
        with pytest.raises(ConstraintViolation):
            append(shared_lake, name, bad)

    found = shared_lake.violations(table=name)

    assert [(v.constraint, v.action, v.count) for v in found] == [
        ("positive", "fail", 2),
        ("id is not null", "fail", 1),
    ]
    assert found[0].sample == ({"id": 1, "n": -1}, {"id": 2, "n": 0})


@pytest.mark.before_the_store
def test_a_violation_that_cannot_be_recorded_hides_no_error(
    shared_lake: lw.Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        message = "the store is gone"
        raise OSError(message)

    shared_lake.create(name, {"n": "int64"}, constraints={"positive": "n > 0"})
    monkeypatch.setattr(violations, "insert", fail)

    with pytest.raises(ConstraintViolation, match="positive"):
        append(shared_lake, name, {"n": [-1]})


@pytest.mark.before_the_store
def test_violations_are_listed_newest_first_up_to_a_limit(
    shared_lake: lw.Lake, new_name: Callable[[], str], tmp_path: Path
) -> None:
    names = [new_name(), new_name()]
    for table in names:
        shared_lake.create(table, {"n": "int64"}, constraints={"positive": "n > 0"})
        with pytest.raises(ConstraintViolation):
            append(shared_lake, table, {"n": [-1]})

    assert [v.table for v in shared_lake.violations(limit=2)] == names[::-1]
    assert [v.table for v in shared_lake.violations(table=names[0])] == names[:1]


def test_constraints_of_a_table_are_shown_as_they_were_declared(
    shared_lake: lw.Lake, name: str
) -> None:
    declared: dict[str, Any] = {
        "plain": "n > 0",
        "soft": lw.Check("n < 9", on_violation="warn"),
        "key": lw.Unique("n"),
    }
    shared_lake.create(name, {"n": "int64"}, constraints=declared)

    assert shared_lake.table(name).constraints == declared


@pytest.mark.parametrize("how", ["append", "appends", "merge"])
@pytest.mark.parametrize("bad_first", [True, False])
def test_a_quarantined_row_takes_no_key(
    shared_lake: lw.Lake, name: str, how: str, bad_first: bool
) -> None:
    make(shared_lake, name, "quarantine")
    given = [rows((3, -1)), rows((3, 5))] if bad_first else [rows((3, 5)), rows((3, -1))]

    with shared_lake.transaction() as tx:
        match how:
            case "append":
                tx.append(name, pa.concat_tables(given))
            case "appends":
                for some in given:
                    tx.append(name, some)
            case _:
                on = "target.id = source.id AND target.amount = source.amount"
                tx.merge(name, pa.concat_tables(given), on=on)

    assert shared_lake.table(name).to_arrow(where="id = 3")["amount"].to_pylist() == [5.0]
    aside = shared_lake.table(f"{name}__quarantine").to_arrow()
    assert [(r["amount"], r["_constraint"]) for r in aside.to_pylist()] == [(-1.0, "positive")]
    (found,) = shared_lake.violations(table=name)
    assert (found.constraint, found.count) == ("positive", 1)


def test_a_quarantined_row_fails_no_key(shared_lake: lw.Lake, name: str) -> None:
    constraints: dict[str, Any] = {
        "key": lw.Unique("id"),
        "positive": lw.Check("amount > 0", on_violation="quarantine"),
    }
    shared_lake.create(name, "id int64, amount double", constraints=constraints)

    append(shared_lake, name, rows((1, -1), (1, 5)))

    assert shared_lake.table(name).to_arrow()["amount"].to_pylist() == [5.0]
    with pytest.raises(ConstraintViolation, match="Unique key key"):
        append(shared_lake, name, rows((2, -1), (1, 6)))


def test_a_row_that_one_key_keeps_out_takes_no_other(shared_lake: lw.Lake, name: str) -> None:
    constraints = {n: lw.Unique(n, on_violation="quarantine") for n in ("a", "b")}
    shared_lake.create(name, "a int64, b int64", constraints=constraints)

    append(shared_lake, name, {"a": [1, 2, 2, 3, 3], "b": [1, 1, 2, 2, 3]})

    found = shared_lake.table(name).to_arrow().to_pylist()
    assert [(r["a"], r["b"]) for r in found] == [(1, 1), (2, 2), (3, 3)]


def test_a_quarantined_row_is_no_parent_and_its_child_takes_no_key(
    shared_lake: lw.Lake, new_name: Callable[[], str]
) -> None:
    parents, children = new_name(), new_name()
    make(shared_lake, parents, "quarantine")
    constraints: dict[str, Any] = {
        "key": lw.Unique("id", on_violation="quarantine"),
        "parent": lw.ForeignKey("p", references=parents, key="id", on_violation="quarantine"),
    }
    shared_lake.create(children, "id int64, p int64", constraints=constraints)

    with shared_lake.transaction() as tx:
        tx.append(children, {"id": [1, 1, 2, 2], "p": [3, 1, 4, 2]})
        tx.append(parents, rows((3, -1), (4, 4)))

    found = shared_lake.table(children).to_arrow().to_pylist()
    assert [(r["id"], r["p"]) for r in found] == [(1, 1), (2, 4)]
    aside = shared_lake.table(f"{children}__quarantine").to_arrow().to_pylist()
    assert [(r["id"], r["p"], r["_constraint"]) for r in aside] == [(1, 3, "parent"), (2, 2, "key")]
