"""The statistics that we publish never make a stranger skip rows that match.

What a stranger finds in the table, skipping files by our statistics, is what the same one finds
by the same rules in the same rows held in memory, where there is nothing to skip.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from tests.behaviour.lakes import append
from tests.behaviour.samples import PARTITIONING, VALUES, partition_sample, sample
from tests.interop.readers import Comparison, DeltaRs, Reader, as_ours

_COMPARED = [k for k, (kind, _) in VALUES.items() if not pa.types.is_nested(kind) and k != "binary"]


def _comparisons(kind: pa.DataType, values: list[Any]) -> Iterator[Comparison]:
    for value in values:
        if isinstance(value, str) and "\0" in value:
            continue  # no SQL text can hold it
        for operator in ("=", "<", "<=", ">", ">="):
            yield Comparison(operator, value, kind)


def _check(stranger: Reader, table: lw.Table, comparisons: Iterator[Comparison]) -> None:
    schema = table.to_arrow().schema
    kept = pa.schema([schema.field("id"), schema.field("x")])
    whole = as_ours(stranger.rows(table.location), schema).select(["id", "x"]).cast(kept)
    for comparison in comparisons:
        expected = stranger.ids_of(whole, comparison)
        assert stranger.ids(table.location, comparison) == expected, comparison


def _table(lake: lw.Lake, name: str, data: pa.Table, rows_per_file: int) -> lw.Table:
    table = lake.create(name, data.schema)
    with lake.transaction() as tx:
        for start in range(0, data.num_rows, rows_per_file):
            tx.append(name, data.slice(start, rows_per_file))
    return table


@pytest.fixture(scope="module")
def alone(own_lake: lw.Lake) -> dict[str, lw.Table]:
    """Tables where every row has a file of its own: the tightest bounds there can be."""
    return {k: _table(own_lake, f"alone.{k}", sample(k), 1) for k in _COMPARED}


@pytest.mark.parametrize("kind", _COMPARED)
def test_rows_alone_in_their_files_are_found(
    stranger: Reader, alone: dict[str, lw.Table], kind: str
) -> None:
    arrow, values = VALUES[kind]
    _check(stranger, alone[kind], _comparisons(arrow, values))


@pytest.fixture(scope="module")
def together(own_lake: lw.Lake) -> dict[str, lw.Table]:
    """Tables where files hold several rows, nulls among them."""
    made = {}
    for kind in _COMPARED:
        data = sample(kind)
        order = pa.array([*range(0, data.num_rows, 2), *range(1, data.num_rows, 2)])
        made[kind] = _table(own_lake, f"together.{kind}", data.take(order), 3)
    return made


@pytest.mark.parametrize("kind", _COMPARED)
def test_rows_among_others_are_found(
    stranger: Reader, together: dict[str, lw.Table], kind: str
) -> None:
    arrow, values = VALUES[kind]
    _check(stranger, together[kind], _comparisons(arrow, values[::2]))


@pytest.fixture(scope="module")
def parted(own_lake: lw.Lake) -> dict[str, lw.Table]:
    made = {}
    for kind in PARTITIONING:
        data = partition_sample(kind)
        made[kind] = own_lake.create(f"parted.{kind}", data.schema, partition_by=["x"])
        append(own_lake, f"parted.{kind}", data)
    return made


@pytest.mark.parametrize("kind", PARTITIONING)
def test_rows_of_partitions_are_found(
    stranger: Reader, parted: dict[str, lw.Table], kind: str
) -> None:
    arrow, values = VALUES[kind]
    _check(stranger, parted[kind], _comparisons(arrow, [v for v in values if v != ""]))


@pytest.mark.parametrize("zone", ["UTC", None])
def test_microseconds_are_not_cut_off(
    stranger: Reader, own_lake: lw.Lake, name: str, zone: str | None
) -> None:
    """Readers keep milliseconds of statistics, so bounds in between must be rounded outwards."""
    kind = pa.timestamp("us", zone)
    start = datetime(2026, 1, 1, tzinfo=UTC if zone else None)
    moments = [start + timedelta(microseconds=n) for n in (-1001, -1000, -999, -1, 0, 1, 999, 1000)]
    data = pa.table({"id": list(range(len(moments))), "x": pa.array(moments, kind)})
    table = _table(own_lake, name, data, 1)

    _check(stranger, table, _comparisons(kind, moments))


def test_decimals_are_not_rounded(stranger: Reader, own_lake: lw.Lake, name: str) -> None:
    """Readers that take numbers in JSON for floats must not lose the last digits."""
    kind = pa.decimal128(38, 10)
    numbers = [Decimal(n) for n in ("0.1", "0.1000000001", "9007199254740993", "9007199254740992")]
    numbers += [Decimal("1234567890123456789012345678.0123456789") + Decimal(n) for n in range(2)]
    data = pa.table({"id": list(range(len(numbers))), "x": pa.array(numbers, kind)})
    table = _table(own_lake, name, data, 1)

    _check(stranger, table, _comparisons(kind, numbers))


def test_long_texts_are_cut_outwards(stranger: Reader, own_lake: lw.Lake, name: str) -> None:
    start = "p" * 32
    texts = [
        start,
        start + "a",
        start + "z",
        start + "\U0010ffff",
        start + "\U0010ffff\U0010ffff",
        start[:31] + "\U0010ffff" * 3,
        "é" * 40,
        "🦆" * 40,
        "\U0010ffff" * 40,
    ]
    data = pa.table({"id": list(range(len(texts))), "x": texts})
    table = _table(own_lake, name, data, 1)

    _check(stranger, table, _comparisons(pa.string(), texts))


def test_files_are_really_skipped(own_lake: lw.Lake) -> None:
    """Otherwise nothing here would be tested."""
    table = _table(own_lake, "skipped", pa.table({"id": range(5), "x": range(5)}), 1)
    plan = QueryBuilder().register("t", DeltaTable(table.location))
    text = str(pa.table(plan.execute("EXPLAIN ANALYZE SELECT id FROM t WHERE x = 3")).to_pylist())

    assert DeltaRs().ids(table.location, Comparison("=", 3, pa.int64())) == [3]
    assert text.count("part-0000") == 1
