"""Random queries over tables of both formats give what DuckDB makes of the same rows in memory."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import lakeward as lw
from tests.support.sizes import sizes

COLUMNS = ("k", "i", "s", "d", "v", "ts")
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def _table(rng: random.Random, first: int, count: int) -> pa.Table:
    def maybe(make: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.15 else make()

    def row(n: int) -> dict[str, Any]:
        return {
            "k": n,
            "i": maybe(lambda: n // 3 + rng.randrange(3)),
            "s": maybe(lambda: rng.choice("abcdef") * rng.randrange(1, 3)),
            "d": maybe(lambda: date(2026, 1, 1) + timedelta(days=n // 10)),
            "v": maybe(lambda: float("nan") if rng.random() < 0.05 else rng.uniform(-5, 5)),
            "ts": maybe(lambda: NOON + timedelta(hours=n)),
        }

    rows = [row(n) for n in range(first, first + count)]
    kinds = [pa.int64(), pa.int64(), pa.string(), pa.date32(), pa.float64()]
    schema = pa.schema(list(zip(COLUMNS, [*kinds, pa.timestamp("us", "UTC")], strict=True)))
    return pa.Table.from_pylist(rows, schema=schema)


def _value(rng: random.Random, column: str) -> str:
    match column:
        case "k" | "i":
            return str(rng.randrange(-2, 62))
        case "s":
            return f"'{rng.choice('abcdef') * rng.randrange(1, 3)}'"
        case "d":
            return f"DATE '{date(2026, 1, 1) + timedelta(days=rng.randrange(8))}'"
        case "v":
            return f"{rng.uniform(-5, 5):.2f}"
        case _:
            return f"TIMESTAMP '{(NOON + timedelta(hours=rng.randrange(60))):%Y-%m-%d %H:%M:%S}'"


def _condition(rng: random.Random, alias: str, depth: int = 2) -> str:
    shape = rng.randrange(8 if depth else 5)
    column = rng.choice([c for c in COLUMNS if c != "ts"])
    name = f"{alias}.{column}"
    if shape == 0:
        return f"{name} {rng.choice(['=', '<>', '<', '<=', '>', '>='])} {_value(rng, column)}"
    if shape == 1:
        return f"{name} IN ({', '.join(_value(rng, column) for _ in range(3))})"
    if shape == 2:
        return f"{name} BETWEEN {_value(rng, column)} AND {_value(rng, column)}"
    if shape == 3:
        return f"{name} IS {rng.choice(['', 'NOT '])}NULL"
    if shape == 4:
        return f"{_value(rng, 'k')} > {alias}.k"
    left, right = (_condition(rng, alias, depth - 1) for _ in range(2))
    word = ("AND", "OR", "AND NOT")[shape - 5]
    return f"({left} {word} ({right}))"


def _query(rng: random.Random) -> str:
    join = rng.choice(["", "", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
    where = " AND ".join(_condition(rng, "a") for _ in range(rng.randrange(3))) or "1 = 1"
    if not join:
        shape = rng.randrange(3)
        if shape == 0:
            return f"SELECT a.* FROM one a WHERE {where}"
        if shape == 1:
            inner = f"WITH w AS (SELECT k, i, s, d, v FROM one x WHERE {_condition(rng, 'x')})"
            return f"{inner} SELECT a.k, a.s FROM w a WHERE {where}"
        return f"SELECT a.k, a.i FROM one a ORDER BY a.k {rng.choice(['', 'DESC'])} LIMIT 7"
    on = f"a.k = b.k AND {_condition(rng, rng.choice('ab'))}"
    also = _condition(rng, "b") if rng.random() < 0.7 else "1 = 1"
    return f"SELECT a.k, b.k, a.s, b.i FROM one a {join} two b ON {on} WHERE {where} AND {also}"


@pytest.mark.slow
@sizes("count", short=40, full=2000)
def test_random_queries_have_the_answers_of_duckdb(tmp_path: Path, count: int) -> None:
    rng = random.Random(20)
    known = duckdb.connect()
    known.execute("SET TimeZone = 'UTC'")
    with lw.open(tmp_path / "lake") as lake:
        for name, form in (("one", "delta"), ("two", "iceberg")):
            parts = [_table(rng, first, 10) for first in range(0, 60, 10)]
            table = lake.create(name, like=parts[0], format=form)
            for part in parts:
                table.append(part)
            known.register(name, pa.concat_tables(parts))
        for number in range(count):
            text = _query(rng)
            wanted = _sorted(_rows(known.execute(text).to_arrow_table()))
            for engine in ("datafusion", "duckdb"):
                found = _rows(lake.sql(text, engine=engine).to_arrow())
                assert _sorted(found) == wanted, (number, engine, text)


def _rows(table: pa.Table) -> list[Any]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def _sorted(rows: list[Any]) -> list[str]:
    return sorted(repr(tuple(map(_plain, row))) for row in rows)


def _plain(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value
