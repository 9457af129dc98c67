"""Rows without a value in a required column go to quarantine, if a constraint says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import append, data_files
from tests.support.invariants import check_lake

_COLUMNS = "id int64 not null, amount double not null, part string not null"
_RULE = lw.NotNull("amount", on_violation="quarantine")
_FEED = {"change_data_feed": True}
_KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "parted": {"partition_by": ["part"], "policy": {"column_mapping": "name"}},
    "fed": {"policy": {"merge_on_read": True, "merge_on_read_fraction": 1, **_FEED}},
    "tracked": {"properties": {"delta.enableRowTracking": "true"}},
    "parted in Iceberg": {"partition_by": ["part"]},
    "version3": {"properties": {"format-version": "3"}},
}


def _kinds(table_format: str) -> list[str]:
    is_delta = table_format == "delta"
    return ["parted", "fed", "tracked"] if is_delta else ["parted in Iceberg", "version3"]


def make(lake: lw.Lake, name: str, kind: str = "plain", **more: Any) -> lw.Table:
    rules = {"paid": lw.NotNull("amount", "part", on_violation="quarantine"), **more}
    table = lake.create(name, _COLUMNS, constraints=rules, **_KINDS[kind])
    append(lake, name, [row(n, float(n)) for n in range(1, 5)])
    return table


def row(number: int, amount: float | None, part: str | None = "a") -> dict[str, Any]:
    return {"id": number, "amount": amount, "part": part}


def amounts(lake: lw.Lake, name: str) -> dict[int, float]:
    rows = lake.table(name).to_arrow().to_pylist()
    found = {r["id"]: r["amount"] for r in rows}
    assert len(found) == len(rows)
    return found


def aside(lake: lw.Lake, name: str) -> list[tuple[int, float | None, str]]:
    found = lake.table(f"{name}__quarantine").to_arrow().to_pylist()
    assert {r["_constraint"] for r in found} <= {"paid"}
    return sorted((r["id"], r["amount"], r["_reason"]) for r in found)


NO_AMOUNT = "amount is required and has no value"
NO_PART = "part is required and has no value"


def test_every_change_of_rows_moves_them(lake: lw.Lake, table_format: str) -> None:
    for kind in _kinds(table_format):
        name = kind.replace(" ", "_")
        table = make(lake, name, kind)
        with lake.transaction() as tx:
            tx.append(name, [row(5, 5.0), row(6, None), row(7, None, None), row(8, 8.0, None)])
        assert amounts(lake, name) == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}, name
        wanted = [(6, None, NO_AMOUNT), (7, None, NO_AMOUNT), (8, 8.0, NO_PART)]
        assert aside(lake, name) == wanted, name
        found = lake.table(f"{name}__quarantine").to_arrow().to_pylist()
        assert {r["_transaction"] for r in found} == {tx.transaction_id}
        assert sum(v.count for v in lake.violations(table=name)) == 4
        assert {v.action for v in lake.violations(table=name)} == {"quarantine"}

        with lake.transaction() as tx:
            tx.update(name, set={"amount": "CASE WHEN id < 3 THEN NULL ELSE amount + 1 END"})
        assert amounts(lake, name) == {1: 1.0, 2: 2.0, 3: 4.0, 4: 5.0, 5: 6.0}, name
        wanted += [(1, None, NO_AMOUNT), (2, None, NO_AMOUNT)]
        assert aside(lake, name) == sorted(wanted), name

        with lake.transaction() as tx:
            tx.merge(name, [row(3, None), row(4, 40.0), row(9, None), row(10, 10.0)], on="id")
        assert amounts(lake, name) == {1: 1.0, 2: 2.0, 3: 4.0, 4: 40.0, 5: 6.0, 10: 10.0}, name
        wanted += [(3, None, NO_AMOUNT), (9, None, NO_AMOUNT)]
        assert aside(lake, name) == sorted(wanted), name

        with lake.transaction() as tx:
            tx.overwrite(name, [row(20, 20.0), row(21, None)])
        assert amounts(lake, name) == {20: 20.0}, name
        wanted += [(21, None, NO_AMOUNT)]
        assert aside(lake, name) == sorted(wanted), name
        if table_format == "delta" and name == "fed":
            told = table.changes(since=table.version - 1).read_all().to_pylist()
            assert all(r["amount"] is not None for r in told)
        check_lake(lake, [name, f"{name}__quarantine"])


@pytest.mark.local
def test_committed_files_have_no_column_that_may_lack_values(lake: lw.Lake) -> None:
    table = make(lake, "t")
    with lake.transaction() as tx:
        tx.append("t", [row(5, 5.0), row(6, None)])
    for path in (f.path for f in table.files()):
        schema = pq.read_schema(Path(table.location) / path)
        assert not schema.field("amount").nullable
    versions = (table.at(version=n) for n in range(table.version + 1))
    assert data_files(lake, "t") == {f.path for version in versions for f in version.files()}


def test_a_sink_moves_them(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.sink("t", writer_id="w") as sink:
        sink.write([row(5, 5.0), row(6, None)])
        sink.commit_epoch(1)
    with lake.sink("t", writer_id="u", mode="upsert", key="id") as sink:
        sink.write([row(1, None), row(2, 20.0), row(7, None)])
        sink.commit_epoch(1)
    assert amounts(lake, "t") == {1: 1.0, 2: 20.0, 3: 3.0, 4: 4.0, 5: 5.0}
    assert [(n, why) for n, _, why in aside(lake, "t")] == [(n, NO_AMOUNT) for n in (1, 6, 7)]
    check_lake(lake, ["t", "t__quarantine"])


@pytest.mark.local
def test_files_that_are_added_give_their_other_rows(lake: lw.Lake) -> None:
    table = make(lake, "t")
    rows = pa.Table.from_pylist([row(5, 5.0), row(6, None)])
    pq.write_table(rows, Path(table.location) / "by-hand.parquet")
    with lake.transaction() as tx:
        tx.add_files("t", ["by-hand.parquet"])
    assert amounts(lake, "t") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0}
    assert aside(lake, "t") == [(6, None, NO_AMOUNT)]
    check_lake(lake, ["t", "t__quarantine"])


def test_other_required_columns_still_fail(lake: lw.Lake) -> None:
    make(lake, "t")
    strict = {"strict": lw.NotNull("id"), "lax": lw.NotNull("id", on_violation="quarantine")}
    lake.create("u", "id int64 not null", constraints=strict)
    with pytest.raises(ConstraintViolation, match="Column id of t is required"):
        append(lake, "t", [{"id": None, "amount": 1.0, "part": "a"}])
    with pytest.raises(ConstraintViolation, match="Column id of u is required"):
        append(lake, "u", {"id": [None]})
    assert lake.table("u").count() == 0


def test_a_row_that_the_transaction_changes_again_is_judged_by_its_last_values(
    lake: lw.Lake,
) -> None:
    make(lake, "t")
    with lake.transaction() as tx:
        tx.append("t", [row(5, None), row(6, None), row(7, None)])
        assert sorted(tx.read("t", where="amount IS NULL")["id"].to_pylist()) == [5, 6, 7]
        found = tx.sql("SELECT id FROM t WHERE amount IS NULL ORDER BY id").to_arrow()
        assert found["id"].to_pylist() == [5, 6, 7]
        tx.update("t", set={"amount": "5.5"}, where="id = 5")
        tx.delete("t", where="id = 6")
    assert amounts(lake, "t") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.5}
    assert aside(lake, "t") == [(7, None, NO_AMOUNT)]
    check_lake(lake, ["t", "t__quarantine"])


def test_rows_do_not_stay_if_the_constraint_is_dropped_meanwhile(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    table = make(lake, "t")
    other = make_lake()
    tx = lake.transaction()
    tx.append("t", [row(5, None), row(6, 6.0)])
    other.table("t").alter().drop_constraint("paid").commit()
    tx.commit()
    assert amounts(lake, "t") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 6: 6.0}
    assert aside(lake, "t") == [(5, None, NO_AMOUNT)]
    with pytest.raises(ConstraintViolation):
        append(lake, "t", [row(5, None)])

    table.alter().add_constraint("paid", _RULE).commit()
    tx = lake.transaction()
    tx.append("t", [row(7, 7.0)])
    tx.alter("t").drop_constraint("paid").add_constraint("paid", _RULE)
    tx.append("t", [row(5, None)])
    with pytest.raises(UnsupportedFeature, match="were written before in this transaction"):
        tx.alter("t").drop_constraint("paid")
    tx.rollback()
    check_lake(lake, ["t", "t__quarantine"])


def test_a_policy_says_so_for_all_its_tables(lake: lw.Lake) -> None:
    lake.create("gold.t", _COLUMNS)
    lake.set_policy(
        "gold.*",
        {"constraints": {"paid": {"not_null": "amount", "on_violation": "quarantine"}}},
    )
    assert lake.policy("gold.t").policy.constraints == {"paid": _RULE}
    append(lake, "gold.t", [row(1, 1.0), row(2, None)])
    assert amounts(lake, "gold.t") == {1: 1.0}
    assert aside(lake, "gold.t") == [(2, None, NO_AMOUNT)]
    with pytest.raises(InvalidInput, match="cannot be renamed"):
        lake.table("gold.t").alter().rename_column("amount", "total").commit()
    with pytest.raises(InvalidInput, match="does not fit"):
        lake.create("gold.u", "amount double")
    tx = lake.transaction()
    tx.append("gold.t", [row(3, None)])
    lake.set_policy("gold.*", {})
    tx.commit()
    assert [n for n, *_ in aside(lake, "gold.t")] == [2, 3]
    with pytest.raises(ConstraintViolation):
        append(lake, "gold.t", [row(3, None)])
    check_lake(lake, ["gold.t", "gold.t__quarantine"])


def test_the_constraint_follows_its_column(lake: lw.Lake) -> None:
    table = make(lake, "t")
    with pytest.raises(InvalidInput, match="cannot be made nullable: constraint paid"):
        table.alter().set_nullable("amount").commit()
    with pytest.raises(InvalidInput, match="cannot be dropped"):
        table.alter().drop_column("amount").commit()
    table.alter().rename_column("amount", "total").commit()
    append(lake, "t", [{"id": 5, "total": None, "part": "a"}])
    (found,) = lake.table("t__quarantine").to_arrow().to_pylist()
    assert (found["id"], found["total"]) == (5, None)
    assert found["_reason"] == "total is required and has no value"
    table.alter().drop_constraint("paid").set_nullable("total").commit()
    append(lake, "t", [{"id": 6, "total": None, "part": "a"}])
    assert lake.table("t").count() == 5


@pytest.mark.before_the_store
def test_it_is_declared_by_sql_too(lake: lw.Lake) -> None:
    table = lake.create("t", "id int64 not null, v int64, w int64 not null")
    table.alter().sql("ADD CONSTRAINT has_id NOT NULL (id, w) ON VIOLATION QUARANTINE").commit()
    table.alter().sql("ADD CONSTRAINT small CHECK (v < 9) ON VIOLATION WARN").commit()
    table.alter().sql("ADD CONSTRAINT key UNIQUE (id) ON VIOLATION QUARANTINE").commit()
    table.alter().sql("ADD CONSTRAINT whole CHECK (v > 0) ON VIOLATION FAIL").commit()
    assert table.constraints == {
        "has_id": lw.NotNull("id", "w", on_violation="quarantine"),
        "small": lw.Check("v < 9", "warn"),
        "key": lw.Unique("id", on_violation="quarantine"),
        "whole": "v > 0",
    }
    (_, newest, *_) = table.history()[::-1]
    assert newest.parameters["changes"] == (
        ["add constraint has_id not null (id, w) on violation quarantine"]
    )
    for clause, why in {
        "NOT NULL (id) ON VIOLATION WARN": "cannot only be warned of",
        "NOT NULL (id) ON VIOLATION IGNORE": "FAIL, QUARANTINE or WARN",
        "NOT NULL (v) ON VIOLATION QUARANTINE": "which may lack values",
        "NOT NULL (id.x) ON VIOLATION QUARANTINE": "bracket",
    }.items():
        with pytest.raises(InvalidInput, match=why):
            table.alter().sql(f"ADD CONSTRAINT other {clause}").commit()
    assert table.version == 4


@pytest.mark.parametrize("moved", ["read", "lock", "read_committed"])
def test_rows_are_not_committed_after_others_dropped_the_constraint(
    lake: lw.Lake, moved: str
) -> None:
    table = lake.create("t", "id int64 not null, v int64", constraints={"c": _of_id()})
    options: dict[str, Any] = {"isolation": moved} if moved == "read_committed" else {}
    tx = lake.transaction(**options)
    tx.append("t", pa.table({"id": [1, None], "v": [1, 2]}))
    table.alter().drop_constraint("c").commit()

    # The transaction goes on with the newest version, which no longer moves such rows.
    with pytest.raises(Conflict, match="rows without a value of column id"):  # noqa: PT012
        tx.lock("t") if moved == "lock" else tx.read("t")
        tx.commit()
    tx.rollback()

    assert table.to_arrow().num_rows == 0
    assert [str(t.name) for t in lake.tables()] == ["t"]


def _of_id() -> lw.NotNull:
    return lw.NotNull("id", on_violation="quarantine")


@pytest.mark.before_the_store
def test_what_cannot_be_honoured_is_refused(lake: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="cannot only be warned of") as caught:
        lw.NotNull("id", on_violation="warn")
    assert "id IS NOT NULL" in str(caught.value)
    for rule, why in (
        (lw.NotNull("v", on_violation="quarantine"), "may lack values"),
        (lw.NotNull("s.x", on_violation="quarantine"), "does not have"),
    ):
        with pytest.raises(InvalidInput, match=why):
            lake.create("t", {"id": "int64", "v": "int64"}, constraints={"c": rule})
    with pytest.raises(InvalidInput, match="cannot only be warned of"):
        lake.set_policy("t", {"constraints": {"c": {"not_null": "id", "on_violation": "warn"}}})
    with pytest.raises(InvalidInput, match="at least one column"):
        lw.NotNull()
    assert lake.tables() == []
