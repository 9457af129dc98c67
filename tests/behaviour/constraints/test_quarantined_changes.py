"""Rows whose new values violate a constraint stay as they were; the values go to quarantine."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from lakeward.log import files, heads
from lakeward.model.file import DataFile
from lakeward.model.names import TableName
from lakeward.model.row_ids import RowIds
from lakeward.write.branch.origins import find_origins
from lakeward.write.plan.change import Change
from tests.behaviour.lakes import append, ids
from tests.support.delta_rows import row_ids
from tests.support.inside import context_of
from tests.support.invariants import check_lake

_COLUMNS = "id int64 not null, amount double, part string"
_KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "parted": {"partition_by": ["part"]},
    "marked": {"policy": {"merge_on_read": True, "merge_on_read_fraction": 1}},
    "fed": {"policy": {"change_data_feed": True}},
    "tracked": {"properties": {"delta.enableRowTracking": "true"}},
    "version3": {"properties": {"format-version": "3"}},
}


def make(lake: lw.Lake, name: str, kind: str = "plain", reaction: str = "quarantine") -> lw.Table:
    table = lake.create(
        name,
        _COLUMNS,
        constraints={
            "key": lw.Unique("id", on_violation=reaction),
            "positive": lw.Check("amount > 0", on_violation=reaction),
        },
        **_KINDS[kind],
    )
    rows = [{"id": n, "amount": float(n), "part": "ab"[n % 2]} for n in range(1, 7)]
    append(lake, name, rows[:4])
    append(lake, name, rows[4:])
    return table


def amounts(lake: lw.Lake, name: str) -> dict[int, float]:
    rows = lake.table(name).to_arrow().to_pylist()
    found = {r["id"]: r["amount"] for r in rows}
    assert len(found) == len(rows)
    return found


def aside(lake: lw.Lake, name: str) -> list[tuple[int, float, str]]:
    found = lake.table(f"{name}__quarantine").to_arrow().to_pylist()
    return sorted((r["id"], r["amount"], r["_constraint"]) for r in found)


def _kinds(table_format: str) -> list[str]:
    others = ("version3",) if table_format == "delta" else ("marked", "fed", "tracked")
    return [kind for kind in _KINDS if kind not in others]


def test_an_update_keeps_out_what_violates_a_check(lake: lw.Lake, table_format: str) -> None:
    for name in _kinds(table_format):
        table = make(lake, name, name)
        before = row_ids(table) if name == "tracked" else {}
        with lake.transaction() as tx:
            tx.update(name, set={"amount": "amount - 2.5"}, where="id <> 6")
        assert amounts(lake, name) == {1: 1.0, 2: 2.0, 3: 0.5, 4: 1.5, 5: 2.5, 6: 6.0}, name
        assert aside(lake, name) == [(1, -1.5, "positive"), (2, -0.5, "positive")], name
        (violation,) = lake.violations(table=name)
        assert (violation.action, violation.count) == ("quarantine", 2)
        (newest, *_) = table.history()
        assert newest.operation == "UPDATE"
        assert int(newest.metrics["numUpdatedRows"]) == 3, name
        if name == "tracked":
            after = {n: i for n, (i, _) in row_ids(table).items()}
            assert after == {n: i for n, (i, _) in before.items()}
        check_lake(lake, [name, f"{name}__quarantine"])


@pytest.mark.formats("delta")
def test_the_feed_has_only_the_changes_that_were_made(lake: lw.Lake) -> None:
    table = make(lake, "t", "fed")
    with lake.transaction() as tx:
        tx.update("t", set={"amount": "amount - 2.5"}, where="id < 4")
    found = table.changes(since=table.version).read_all().to_pylist()
    assert {(r["id"], r["amount"]) for r in found} == {(3, 3.0), (3, 0.5)}


def test_an_update_keeps_out_a_key_that_another_row_has(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.transaction() as tx:
        tx.update("t", set={"id": "id + 1", "amount": "amount + 10"}, where="id IN (2, 4, 6)")
    assert amounts(lake, "t") == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0, 7: 16.0}
    assert aside(lake, "t") == [(3, 12.0, "key"), (5, 14.0, "key")]


def test_a_row_that_keeps_its_key_is_not_the_one_to_go(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.transaction() as tx:
        # Both get the same key; only the second row had another one.
        tx.merge(
            "t",
            [{"old": 1, "new": 1, "amount": 50.0}, {"old": 2, "new": 1, "amount": 60.0}],
            on="target.id = source.old",
            matched={"id": "source.new", "amount": "source.amount"},
            not_matched=None,
        )
    assert amounts(lake, "t") == {1: 50.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0, 6: 6.0}
    assert aside(lake, "t") == [(1, 60.0, "key")]


def test_a_key_that_a_rejected_change_does_not_free_is_taken(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.transaction() as tx:
        # 5 cannot become 6, so 4 cannot become 5, and so on.
        tx.update("t", set={"id": "id + 1"}, where="id < 6")
    assert ids(lake, "t") == [1, 2, 3, 4, 5, 6]
    assert [i for i, _, _ in aside(lake, "t")] == [2, 3, 4, 5, 6]


def test_changes_that_would_have_to_be_put_back_without_end_fail(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.write.transaction.quarantine._ROUNDS", 3)
    make(lake, "t")
    with pytest.raises(ConstraintViolation, match="again and again"), lake.transaction() as tx:
        tx.update("t", set={"id": "id + 1"}, where="id < 6")
    assert ids(lake, "t") == [1, 2, 3, 4, 5, 6]


def test_a_merge_keeps_out_changed_and_new_rows(lake: lw.Lake, table_format: str) -> None:
    for name in _kinds(table_format):
        table = make(lake, name, name)
        source = [
            {"id": 1, "amount": 11.0, "part": "b"},
            {"id": 2, "amount": -2.0, "part": "a"},
            {"id": 7, "amount": 7.0, "part": "b"},
            {"id": 8, "amount": -8.0, "part": "a"},
        ]
        with lake.transaction() as tx:
            tx.merge(name, source, on="id")
        assert amounts(lake, name) == {1: 11.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0, 6: 6.0, 7: 7.0}
        assert aside(lake, name) == [(2, -2.0, "positive"), (8, -8.0, "positive")], name
        (newest, *_) = table.history()
        counts = {k: int(v) for k, v in newest.metrics.items() if k.startswith("numTargetRows")}
        assert counts["numTargetRowsUpdated"] == counts["numTargetRowsInserted"] == 1, name
        check_lake(lake, [name, f"{name}__quarantine"])


def test_rows_that_a_transaction_changes_twice_stay_as_they_were_before_it(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.transaction() as tx:
        tx.append("t", [{"id": 9, "amount": 9.0, "part": "a"}])
        tx.update("t", set={"amount": "amount + 1"}, where="id IN (1, 2, 9)")
        tx.update("t", set={"amount": "-amount"}, where="id IN (2, 9)")
        tx.delete("t", where="id = 3")
    assert amounts(lake, "t") == {1: 2.0, 2: 2.0, 4: 4.0, 5: 5.0, 6: 6.0}
    assert aside(lake, "t") == [(2, -3.0, "positive"), (9, -10.0, "positive")]


def test_rows_that_stay_are_not_reported_again(lake: lw.Lake) -> None:
    make(lake, "t", reaction="warn")
    append(lake, "t", [{"id": 7, "amount": -1.0, "part": "a"}, {"id": 8, "amount": 8.0}])
    with lake.transaction() as tx:
        tx.update("t", set={"amount": "amount + 1"}, where="id = 8")
    assert [v.count for v in lake.violations(table="t")] == [1]
    with lake.transaction() as tx:
        tx.update("t", set={"amount": "-amount"}, where="id = 8")
    assert [v.count for v in lake.violations(table="t")] == [1, 1]


def test_children_keep_their_parent(lake: lw.Lake) -> None:
    lake.create("parents", {"id": "int64"}, constraints={"key": lw.Unique("id")})
    key = lw.ForeignKey("parent", references="parents", key="id", on_violation="quarantine")
    lake.create("children", {"id": "int64", "parent": "int64"}, constraints={"parent": key})
    append(lake, "parents", {"id": [1, 2]})
    append(lake, "children", {"id": [10, 20], "parent": [1, 2]})
    with lake.transaction() as tx:
        tx.update("children", set={"parent": "parent + 1"})
    rows = {r["id"]: r["parent"] for r in lake.table("children").to_arrow().to_pylist()}
    assert rows == {10: 2, 20: 2}
    (bad,) = lake.table("children__quarantine").to_arrow().to_pylist()
    assert (bad["id"], bad["parent"], bad["_constraint"]) == (20, 3, "parent")


def test_a_sink_of_changes_keeps_the_rows_that_are_there(lake: lw.Lake) -> None:
    make(lake, "t")
    with lake.sink("t", writer_id="w", mode="upsert", key="id") as sink:
        sink.write(
            [
                {"id": 1, "amount": 11.0, "part": "b"},
                {"id": 2, "amount": -2.0, "part": "a"},
                {"id": 9, "amount": -9.0, "part": "b"},
            ]
        )
        sink.commit_epoch(1)
    assert amounts(lake, "t") == {1: 11.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 5.0, 6: 6.0}
    assert aside(lake, "t") == [(2, -2.0, "positive"), (9, -9.0, "positive")]


def test_rows_are_quarantined_once_if_others_change_the_table_meanwhile(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake], table_format: str
) -> None:
    other = make_lake()
    for name in {"plain", "marked"}.intersection(_kinds(table_format)):
        make(lake, name, name)
        key = iter((107, 207))

        def meanwhile(_: object, name: str = name, key: Iterator[int] = key) -> None:
            if new := next(key, None):
                append(other, name, [{"id": new, "amount": 1.0, "part": "a"}])

        def work(tx: lw.Transaction, name: str = name) -> None:
            amounts = {n: 1.0 if n > 10 else -1.0 for n in range(10, 60)}
            rows = [{"id": n, "amount": a, "part": "a"} for n, a in amounts.items()]
            tx.append(name, rows)
            tx.delete(name, where="id % 100 = 11 OR id % 100 = 7")

        hook = lake.hooks.before_commit(meanwhile)
        lake.run(work, isolation="read_committed")
        lake.hooks.remove(hook)

        assert sorted(amounts(lake, name)) == [*range(1, 7), *range(12, 60)], name
        assert aside(lake, name) == [(10, -1.0, "positive")], name
        assert [v.count for v in lake.violations(table=name)] == [1], name


@pytest.mark.parametrize(("firsts", "known"), [([0, 9], True), ([0, 2], False), ([0, None], False)])
def test_no_origin_is_found_by_ids_that_do_not_tell_rows_apart(
    lake: lw.Lake, firsts: list[int | None], known: bool
) -> None:
    make(lake, "t")
    context = context_of(lake)
    with context.database.read() as session:
        head = heads.find(session, TableName.parse("t"))
        assert head is not None
        change = Change(head, context.definition(session, head))
        for file in files.at(session, head.table_id, head.version):
            change.remove(file)
    paths = [f.path for f in change.removed.values()]

    def first(file: DataFile) -> tuple[int, int] | None:
        number = firsts[paths.index(file.path)]
        return None if number is None else (number, 0)

    found = find_origins(context.storage, change, RowIds("row", "version", first))
    assert (found is not None) == known


@pytest.mark.parametrize("seed", range(4))
def test_no_row_is_lost_and_no_violation_gets_in(
    lake: lw.Lake, table_format: str, seed: int
) -> None:
    choose = random.Random(seed)
    kind = choose.choice(_kinds(table_format))
    make(lake, "t", kind)
    model, rejected = amounts(lake, "t"), 0
    for step in range(12):
        model, bad = _changed(lake, model, choose)
        rejected += bad
        assert amounts(lake, "t") == model, (kind, step)
    names = [table.name for table in lake.tables()]
    assert rejected == (lake.table(names[1]).count() if names[1:] else 0)
    check_lake(lake, names)


def _changed(
    lake: lw.Lake, model: dict[int, float], choose: random.Random
) -> tuple[dict[int, float], int]:
    """Change rows at random; what the table has then, and how many changes it kept out."""
    with lake.transaction() as tx:
        match choose.randrange(3):
            case 0:
                low, by = choose.randrange(1, 9), choose.uniform(-4, 4)
                after = {i: a + by if i >= low else a for i, a in model.items()}
                tx.update("t", set={"amount": f"amount + ({by!r})"}, where=f"id >= {low}")
            case 1:
                source = {choose.randrange(1, 12): choose.uniform(-5, 9) for _ in range(4)}
                after = model | source
                rows = [{"id": i, "amount": a, "part": "ab"[i % 2]} for i, a in source.items()]
                tx.merge("t", rows, on="id")
            case _:
                gone = choose.randrange(1, 12)
                after = {i: a for i, a in model.items() if i != gone}
                tx.delete("t", where=f"id = {gone}")
    bad = {i for i, a in after.items() if a <= 0}
    kept = {i: a for i, a in after.items() if i not in bad}
    return kept | {i: a for i, a in model.items() if i in bad}, len(bad)
