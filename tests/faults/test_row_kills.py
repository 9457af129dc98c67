"""R1 for changes of rows: a process killed in the middle of an update, a delete or a merge."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Final, TypeAlias

import pytest
from deltalake import DeltaTable

import lakeward as lw
from lakeward.errors import TransactionNotFound
from lakeward.model import steps
from tests.support import processes
from tests.support.invariants import Rows, check_lake, check_nothing_torn
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

Point: TypeAlias = tuple[str, str, int]
"""An operation, a step that it passes, and for the how many-th time."""

MEMBERS: Final = ("copied", "marked", "iced")
OPERATIONS: Final = ("update", "delete", "merge")
_SCHEMA: Final = {"id": "int64", "v": "int64"}
_UPDATED: Final = (1, 2, 7, 13)
_DELETED: Final = (0, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17)
"""One row of the first file, most of the second, all of the third."""
_MERGED: Final = {3: 30, 4: -1, 8: 80, 100: 1000, 101: 1010}
"""The values of keys; rows whose value is negative go."""
_KILLS_PER_SET: Final = 16
_SHORT: Final = {*steps.ROW_STEPS, "ratify.inserted", "ratify.committed", "publish.done"}


@sizes("everywhere", short=False, full=True)
def test_rows_killed_at_any_step_are_all_as_they_were_or_all_changed(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], everywhere: bool
) -> None:
    lake = make_lake()
    tables = create_tables(lake, "first")
    points = list(passed(lake, lake_target, tables))
    chosen = points if everywhere else some(points, random.Random(6), lake_target)
    before, outcomes = rows_of(base()), Counter[bool]()
    checked = 0
    for number, (operation, step, occurrence) in enumerate(chosen):
        if number % _KILLS_PER_SET == 0:
            # Fresh tables keep the checks quick, whatever the number of kills.
            assert wrong(lake) == []
            for name in tables:
                lake.drop(name)
            tables, checked = create_tables(lake, f"set{number // _KILLS_PER_SET}"), 0
        reset(lake, tables)
        version = lake.table(tables[0]).version
        lake.close()
        point, label = (operation, step, occurrence), f"kill{number}"
        worker = processes.start(
            change_until_killed, lake_target, tables, label, operation, step, occurrence
        )
        worker.finish()
        assert worker.killed, point
        check_nothing_torn(lake_target.warehouse / tables[0].partition(".")[0])

        lake = make_lake()
        after = rows_of(expected(operation))
        committed = happened(lake, label)
        rows = check_lake(lake, tables, since=checked)
        assert rows == dict.fromkeys(tables, after if committed else before), point
        assert told(lake, tables, version) == (changes(operation) if committed else None), point
        if not committed:
            with lake.transaction(transaction_id=label) as tx:
                change(tx, tables, operation)
            rows = check_lake(lake, tables, since=version)
            assert rows == dict.fromkeys(tables, after), point
            assert told(lake, tables, version) == changes(operation), point
        checked = version
        outcomes[committed] += 1
    assert wrong(lake) == []
    wanted = {*steps.STEPS, *steps.ROW_STEPS} if everywhere else _SHORT
    assert {step for _, step, _ in chosen} >= wanted
    assert outcomes[True]
    assert outcomes[False]
    print(
        f"\nR1 rows {'postgres' if lake_target.is_postgres else 'sqlite'}: {len(chosen)} kills,"
        f" {outcomes[True]} after the commit and {outcomes[False]} before it"
    )


def wrong(lake: lw.Lake) -> list[str]:
    """What the doctor finds; what the killed leave behind may be cleared away, and is not wrong."""
    return [str(f) for f in lake.doctor().findings if f.code != "reclaimable"]


def create_tables(lake: lw.Lake, namespace: str) -> list[str]:
    told: dict[str, object] = {"checkpoint_interval": 2, "change_data_feed": True}
    policies: dict[str, dict[str, object]] = {
        "copied": told,
        "marked": {**told, "merge_on_read": True, "merge_on_read_fraction": 0.5},
        "iced": {},
    }
    for member, policy in policies.items():
        table_format = "iceberg" if member == "iced" else "delta"
        lake.create(f"{namespace}.{member}", _SCHEMA, format=table_format, policy=policy)
    return [f"{namespace}.{member}" for member in MEMBERS]


def base() -> dict[int, int]:
    return {n: n for n in range(18)}


def reset(lake: lw.Lake, tables: list[str]) -> None:
    """Let each table have the rows of `base`, in three files.

    What is done to them next is an even version, so it writes a checkpoint.
    """
    rows = [{"id": n, "v": v} for n, v in base().items()]
    with lake.transaction() as tx:
        for name in tables:
            tx.overwrite(name, rows[:6])
            tx.append(name, rows[6:12])
            tx.append(name, rows[12:])


def passed(lake: lw.Lake, target: LakeTarget, tables: list[str]) -> Iterator[Point]:
    """Every step that each operation passes, as often as it does."""
    for operation in OPERATIONS:
        reset(lake, tables)
        worker = processes.start(change_and_tell, target, tables, operation)
        for step, count in Counter(worker.finish()).items():
            yield from ((operation, step, n) for n in range(1, count + 1))


def some(points: list[Point], choose: random.Random, target: LakeTarget) -> list[Point]:
    """Each step of a change of rows, on one store once for each operation, and the commit's.

    The other steps of a transaction have tests of their own.
    """
    found: dict[tuple[str, str], list[Point]] = {}
    for operation, step, occurrence in points:
        if step not in _SHORT:
            continue
        of = operation if step in steps.ROW_STEPS and not target.is_postgres else ""
        found.setdefault((of, step), []).append((operation, step, occurrence))
    return [choose.choice(same) for same in found.values()]


def change_and_tell(
    pipe: Connection, target: LakeTarget, tables: list[str], operation: str
) -> None:
    steps.observe(pipe.send)
    with target.open().transaction() as tx:
        change(tx, tables, operation)


def change_until_killed(
    pipe: Connection,
    target: LakeTarget,
    tables: list[str],
    label: str,
    operation: str,
    step: str,
    occurrence: int,
) -> None:
    processes.kill_myself_at(step, occurrence)
    with target.open().transaction(transaction_id=label) as tx:
        change(tx, tables, operation)
    pipe.send("not killed")


def change(tx: lw.Transaction, tables: list[str], operation: str) -> None:
    for name in tables:
        if operation == "update":
            tx.update(name, set={"v": "v + 100"}, where=f"id IN {_UPDATED}")
        elif operation == "delete":
            tx.delete(name, where=f"id IN {_DELETED}")
        else:
            data = [{"id": n, "v": v} for n, v in _MERGED.items()]
            tx.merge(name, data, on="id", matched=[lw.When("source.v < 0", "delete"), "update"])


def expected(operation: str) -> dict[int, int]:
    rows = base()
    if operation == "update":
        return {n: v + 100 if n in _UPDATED else v for n, v in rows.items()}
    if operation == "delete":
        return {n: v for n, v in rows.items() if n not in _DELETED}
    return {n: v for n, v in {**rows, **_MERGED}.items() if v >= 0}


def rows_of(rows: dict[int, int]) -> Rows:
    return Counter(rows.items())


def changes(operation: str) -> Rows:
    """What the change feed tells of an operation."""
    old, new = base(), expected(operation)
    out: Rows = Counter()
    for n in old.keys() | new.keys():
        if n not in new:
            out["delete", n, old[n]] += 1
        elif n not in old:
            out["insert", n, new[n]] += 1
        elif old[n] != new[n]:
            out["update_preimage", n, old[n]] += 1
            out["update_postimage", n, new[n]] += 1
    return out


def told(lake: lw.Lake, tables: list[str], version: int) -> Rows | None:
    """What the feeds tell after a version, read by delta-rs; None where there is nothing newer."""
    found: list[Rows | None] = []
    for name in tables[:2]:
        table = lake.table(name)
        if table.version == version:
            found.append(None)
            continue
        rows = DeltaTable(table.location).load_cdf(starting_version=version + 1).read_all()
        columns = [rows[n].to_pylist() for n in ("_change_type", "id", "v")]
        found.append(Counter(zip(*columns, strict=True)))
    assert found[0] == found[1]
    return found[0]


def happened(lake: lw.Lake, label: str) -> bool:
    try:
        return lake.outcome(label).committed
    except TransactionNotFound:
        return False


_OF_QUARANTINE: Final = (
    *steps.QUARANTINE_STEPS,
    "validate.done",
    "ratify.inserted",
    "ratify.committed",
    "commit.acknowledged",
)


@pytest.mark.parametrize("kind", ["delta-marked", pytest.param("iceberg", marks=pytest.mark.full)])
@sizes("kills", short=len(_OF_QUARANTINE), full=10 * len(_OF_QUARANTINE))
def test_a_kill_loses_no_row_that_is_put_back(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], kind: str, kills: int
) -> None:
    lake = make_lake()
    marked = {"merge_on_read": True, "merge_on_read_fraction": 1}
    lake.create(
        "t",
        _SCHEMA,
        format=kind.partition("-")[0],
        policy=marked if kind == "delta-marked" else {},
        constraints={"positive": lw.Check("v > 0", on_violation="quarantine")},
    )
    rows = {n: n for n in range(1, 7)}
    with lake.transaction() as tx:
        tx.append("t", [{"id": n, "v": v} for n, v in rows.items()])
    kept_out = 0
    for number in range(kills):
        lake.close()
        step, label = _OF_QUARANTINE[number % len(_OF_QUARANTINE)], f"put-back-{number}"
        worker = processes.start(reject_until_killed, lake_target, label, step)
        worker.finish()
        assert worker.killed, step
        lake = make_lake()
        if happened(lake, label):
            rows = {n: v if n == 3 else v + 1 for n, v in rows.items()}
            kept_out += 1
        names = [table.name for table in lake.tables()]
        found = check_lake(lake, names)
        assert found["t"] == rows_of(rows), step
        aside = lake.table("t__quarantine").count() if "t__quarantine" in names else 0
        assert aside == kept_out, step
    assert kept_out == 2 * kills // len(_OF_QUARANTINE)
    assert [f for f in wrong(lake) if "transaction-open" not in f] == []


def reject_until_killed(pipe: Connection, target: LakeTarget, label: str, step: str) -> None:
    processes.kill_myself_at(step, 1)
    with target.open().transaction(transaction_id=label) as tx:
        tx.update("t", set={"v": "v + 1"}, where="id <> 3")
        tx.update("t", set={"v": "-v"}, where="id = 3")
    pipe.send("not killed")
