"""Random tables of the lake's own, of both formats, by the embedded engine."""

from __future__ import annotations

import random
from typing import Any

import lakeward as lw
from tests.foreign import random_delta, random_iceberg
from tests.foreign.language import DAY, INTEGERS, Row
from tests.foreign.subject import Subject
from tests.foreign.values import DAY_ONE, arrow_type, random_value, to_arrow

_TRANSFORMS: dict[str, tuple[str, ...]] = {
    "int32": ("{}", "bucket(3, {})", "truncate(10, {})"),
    "int64": ("{}", "bucket(3, {})", "truncate(10, {})"),
    "string": ("{}", "bucket(3, {})", "truncate(2, {})"),
    "date": ("{}", "year({})", "month({})"),
    "timestamp": ("{}", "year({})", "month({})", "day({})", "hour({})"),
    "boolean": ("{}",),
    "decimal(10,2)": ("{}",),
}


def random_own(lake: lw.Lake, name: str, seed: int) -> Subject:
    """A table with random rows in several files, some of them deleted or updated."""
    pick = random.Random(seed)
    table_format = pick.choice(("delta", "iceberg"))
    kinds_of = random_delta.KINDS if table_format == "delta" else random_iceberg.KINDS
    kinds = [pick.choice(kinds_of) for _ in range(pick.randint(3, 8))]
    columns = {"id": "int64", **{f"c{n}": kind for n, kind in enumerate(kinds)}}
    able = [n for n, kind in columns.items() if kind in _TRANSFORMS and n != "id"]
    chosen = pick.sample(able, min(len(able), pick.choice((0, 0, 1, 2))))
    partition_by = [pick.choice(_TRANSFORMS[columns[n]]).format(n) for n in chosen]
    on_read = table_format == "delta" and pick.random() < 0.6
    policy = {"merge_on_read": True, "merge_on_read_fraction": 1.0} if on_read else {}
    lake.create(
        name,
        {n: arrow_type(kind) for n, kind in columns.items()},
        format=table_format,
        partition_by=partition_by,
        policy=policy,
    )
    rows: list[Row] = []
    for _ in range(pick.randint(1, 4)):
        count = pick.choice((1, 3, 8))
        new = [_row(columns, chosen, len(rows) + n, pick) for n in range(count)]
        with lake.transaction() as tx:
            tx.append(name, to_arrow(new, columns))
        rows += new
    steps = [f"{len(rows)} rows"]
    if pick.random() < 0.5:
        gone = [r["id"] for r in rows if pick.random() < 0.3] or [0]
        with lake.transaction() as tx:
            tx.delete(name, where=f"id IN ({', '.join(map(str, gone))})")
        rows = [r for r in rows if r["id"] not in gone]
        steps.append(f"delete {gone}")
    if pick.random() < 0.5:
        column = pick.choice([n for n in columns if n != "id"])
        with lake.transaction() as tx:
            tx.update(name, set={column: "NULL"}, where="id % 2 = 0")
        rows = [{**r, column: None} if r["id"] % 2 == 0 else r for r in rows]
        steps.append(f"update {column}")
    told = f"own {table_format}, seed {seed}, {columns} {partition_by} {policy} {steps}"
    return Subject(told, table_format, "", columns, rows)


def _row(columns: dict[str, str], chosen: list[str], number: int, pick: random.Random) -> Row:
    return {n: _value(n, kind, chosen, pick) for n, kind in columns.items()} | {"id": number}


def _value(name: str, kind: str, chosen: list[str], pick: random.Random) -> Any:
    """A value that the lake takes: of partition columns not all are."""
    found = random_value(kind, pick)
    if found is None or name not in chosen:
        return found
    if kind in INTEGERS and found == -(2 ** (INTEGERS[kind] - 1)):
        return found + 8
    steps = {"date": 1, "timestamp": DAY, "timestamp_ntz": DAY}
    if kind in steps:
        return max(found, DAY_ONE * steps[kind])
    return None if found in ("", "__HIVE_DEFAULT_PARTITION__") else found
