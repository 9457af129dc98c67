"""R1: a process killed at any step of a commit over four Delta and two Iceberg tables.

Each commit alters two of them, replaces two, and counts the rows of one by an identity column.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

import pytest

import lakeward as lw
from lakeward.errors import TransactionNotFound
from lakeward.model.steps import IDENTITY_STEPS, STEPS
from tests.support import processes
from tests.support.invariants import Rows, check_lake, check_nothing_torn, transaction_ids
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = [pytest.mark.crash, pytest.mark.slow]

REPAIR_SECONDS: Final = 5.0
MEMBERS: Final = ("plain", "parted", "replaced", "marked", "iced", "iced_anew")
_STEPS: Final = (*STEPS, *IDENTITY_STEPS)
_SCHEMA: Final = "label string, part int64, n int64"
_COLUMNS: Final = ("label", "part", "n")
_COUNTED: Final = f"{_SCHEMA}, id bigint generated always as identity"
_KILLS_PER_SET: Final = 32
_COMMITS_UNTIL_KILLED: Final = 12


@sizes("kills", short=len(_STEPS), full=1000)
def test_killed_at_any_step_nothing_is_lost_doubled_or_half_visible(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], kills: int
) -> None:
    choose = random.Random(7)
    worst = 0.0
    hits: Counter[str] = Counter()
    committed: list[str] = []
    tables: list[str] = []
    checked = 0
    lake = make_lake()
    for number in range(kills):
        if number % _KILLS_PER_SET == 0:
            # Fresh tables keep the checks quick, whatever the number of kills.
            for name in tables:
                lake.drop(name)
            tables = create_tables(lake, f"set{number // _KILLS_PER_SET}")
            committed, checked = [], 0
        lake.close()
        step = _STEPS[number % len(_STEPS)]
        occurrence = 1 + choose.randrange(5)
        worker = processes.start(
            commit_until_killed, lake_target, tables, f"kill{number}", step, occurrence
        )
        said = worker.finish()
        assert worker.killed, (step, occurrence, said)
        hits[step] += 1
        check_nothing_torn(lake_target.warehouse / tables[0].partition(".")[0])

        before = time.perf_counter()
        lake = make_lake()
        worst = max(worst, time.perf_counter() - before)

        begun = [label for kind, label in said if kind == "begun"]
        acknowledged = {label for kind, label in said if kind == "acknowledged"}
        survived = [label for label in begun if happened(lake, label)]
        assert acknowledged <= set(survived), (step, occurrence)
        committed += survived
        rows = check_lake(lake, tables, since=checked)
        rows[tables[1]] = uncounted(rows[tables[1]])
        checked = len(committed)
        assert rows == dict(zip(tables, expected_rows(committed), strict=True)), (step, occurrence)
        for name in tables:
            assert transaction_ids(lake, name)[1:] == committed, (step, occurrence)
        if committed:
            altered = [lake.table(name).definition for name in (tables[0], tables[4])]
            assert [d.properties["round"] for d in altered] == [committed[-1]] * 2, step
            assert [d.schema.field("n").comment for d in altered] == [committed[-1]] * 2, step
            names = columns_after(len(committed))
            assert [d.schema.names for d in altered] == [names] * 2, step
            anew = [lake.table(name).schema.names for name in (tables[2], tables[5])]
            assert anew == [[*_COLUMNS, *more_columns(committed[-1])]] * 2, step
    assert set(hits) == set(_STEPS)
    assert worst < REPAIR_SECONDS
    print(
        f"\nR1 {'postgres' if lake_target.is_postgres else 'sqlite'}: {kills} kills,"
        f" {min(hits.values())} or more at each of {len(hits)} steps,"
        f" slowest repair {worst * 1000:.0f} ms"
    )


def create_tables(lake: lw.Lake, namespace: str) -> list[str]:
    names = [f"{namespace}.{member}" for member in MEMBERS]
    for name in names:
        lake.create(
            name,
            _COUNTED if name.endswith("parted") else _SCHEMA,
            format="iceberg" if "iced" in name else "delta",
            partition_by=["part"] if name.endswith("parted") else [],
            policy={} if "iced" in name else {"checkpoint_interval": 3, **_policy(name)},
        )
    return names


def _policy(name: str) -> dict[str, object]:
    """Rows of the table `marked` go by deletion vectors, however few its files have."""
    if not name.endswith("marked"):
        return {}
    return {"merge_on_read": True, "merge_on_read_fraction": 1}


def commit_until_killed(
    pipe: Connection, target: LakeTarget, tables: list[str], prefix: str, step: str, occurrence: int
) -> None:
    processes.kill_myself_at(step, occurrence)
    lake = target.open()
    plain, parted, replaced, marked, iced, iced_anew = tables
    for number in range(_COMMITS_UNTIL_KILLED):
        label = f"{prefix}-{number}"
        pipe.send(("begun", label))
        rows = data_of(label)
        with lake.transaction(transaction_id=label) as tx:
            for name in (plain, iced):
                alter(tx, name, lake.table(name).schema.names, label)
            tx.append(plain, rows)
            tx.append(parted, rows)
            replace(tx, replaced, label)
            tx.delete(marked, where="n = 0")
            tx.append(marked, rows)
            tx.append(iced, rows)
            replace(tx, iced_anew, label)
        pipe.send(("acknowledged", label))


def replace(tx: lw.Transaction, name: str, label: str) -> None:
    """Give a table other rows, and by turns other columns; every third time its rows alone.

    The rows of the Delta table with one more column come from a query.
    """
    if is_overwritten(label):
        tx.overwrite(name, data_of(label))
        return
    if more_columns(label) and name.endswith("replaced"):
        rows = "SELECT n % 2 AS part, n FROM (VALUES (0), (1), (2), (3)) AS v (n)"
        every = f"'{label}' AS label, part, n, CAST(NULL AS DOUBLE) AS more"
        tx.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT {every} FROM ({rows}) AS r")
        return
    more = "".join(f", {column} double" for column in more_columns(label))
    tx.sql(f"CREATE OR REPLACE TABLE {name} ({_SCHEMA}{more})")
    tx.append(name, data_of(label))


def is_overwritten(label: str) -> bool:
    return int(label.rpartition("-")[2]) % 3 == 2


def more_columns(label: str) -> list[str]:
    """The columns that a replaced table has beside those of its data."""
    number = int(label.rpartition("-")[2])
    return ["more"] if number % 3 else []


def uncounted(rows: Rows) -> Rows:
    """The rows of the table that counts them, without the values; each value is there once."""
    assert len({id_ for id_, *_ in rows}) == rows.total()
    out: Rows = Counter()
    for (_, *row), count in rows.items():
        out[tuple(row)] += count
    return out


def alter(tx: lw.Transaction, name: str, columns: list[str], label: str) -> None:
    """Change a table's definition; a column is added, renamed and dropped by turns."""
    change = tx.alter(name).set_property("round", label).set_comment("n", label)
    if "x" in columns:
        change.rename_column("x", "y")
    elif "y" in columns:
        change.drop_column("y")
    else:
        change.add_column("x", "string")


def columns_after(commits: int) -> list[str]:
    """The columns that such a table has after so many commits."""
    return [*_COLUMNS, *("", "x", "y")[commits % 3]]


def data_of(label: str) -> list[dict[str, object]]:
    return [{"label": label, "part": n % 2, "n": n} for n in range(4)]


def expected_rows(committed: list[str]) -> list[Rows]:
    everything: Rows = Counter()
    last: Rows = Counter()
    for label in committed:
        last = Counter((r["label"], r["n"], r["part"]) for r in data_of(label))
        everything += last
    # The first row of each transaction went with the next one.
    first: Rows = Counter({row: count for row, count in everything.items() if row[1] == 0})
    marked = everything - first + Counter({row: n for row, n in last.items() if row[1] == 0})
    anew = last
    if committed and more_columns(committed[-1]):
        anew = Counter({(row[0], None, *row[1:]): count for row, count in last.items()})
    special = {"replaced": anew, "iced_anew": anew, "marked": marked}
    if len(columns_after(len(committed))) > len(_COLUMNS):
        # The column that was added last is null everywhere.
        wider = Counter({(*row, None): count for row, count in everything.items()})
        special.update(plain=wider, iced=wider)
    return [special.get(name, everything) for name in MEMBERS]


def happened(lake: lw.Lake, label: str) -> bool:
    try:
        return lake.outcome(label).committed
    except TransactionNotFound:
        return False
