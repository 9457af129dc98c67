"""The rows by which two streams differ are the same whether they fit into memory or not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeward.engines.arrow.net_rows import net_rows

_SCHEMA = pa.schema(
    {"id": pa.int64(), "t": pa.string(), "d": pa.decimal128(9, 2), "l": pa.list_(pa.int64())}
)


def _rows(chance: random.Random, count: int) -> list[tuple[Any, ...]]:
    return [
        (
            chance.choice([None, *range(5)]),
            chance.choice([None, "", "x", "yy"]),
            chance.choice([None, Decimal("1.10")]),
            chance.choice([None, (), (1, 2)]),
        )
        for _ in range(count)
    ]


def _batches(rows: Sequence[tuple[Any, ...]]) -> list[pa.RecordBatch]:
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
    return pa.table(arrays, schema=_SCHEMA).to_batches(max_chunksize=37)


def _counted(table: pa.Table) -> Counter[Any]:
    rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return Counter((i, t, d, None if li is None else tuple(li)) for i, t, d, li in rows)


@pytest.mark.parametrize("memory", [1, 2**30])
@pytest.mark.parametrize("key", [(), ("id",), ("id", "t")])
def test_the_difference_is_that_of_multisets(memory: int, key: tuple[str, ...]) -> None:
    chance = random.Random(7)
    old, new = _rows(chance, 500), _rows(chance, 400)
    found = list(net_rows(_batches(old), _batches(new), _SCHEMA, key=key, memory=memory))

    gone = sum((_counted(p.deleted) + _counted(p.before) for p in found), Counter())
    came = sum((_counted(p.inserted) + _counted(p.after) for p in found), Counter())
    assert gone == Counter(old) - Counter(new)
    assert came == Counter(new) - Counter(old)
    assert (len(found) > 1) == (memory == 1)
    for part in found:
        assert part.before.select(key).equals(part.after.select(key))
        if key:
            left = _keys(part.deleted, key) & _keys(part.inserted, key)
            assert not left


def _keys(table: pa.Table, key: tuple[str, ...]) -> set[tuple[Any, ...]]:
    found = set(zip(*(table[k].to_pylist() for k in key), strict=True))
    return {k for k in found if None not in k}
