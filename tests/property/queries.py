"""Random queries over tables in many states, and the rows that these tables must show.

The rows are kept beside the lake by plain Arrow, so that no reader of Lakeward is trusted. `TABLES`
differ in format and state: as written, with NaN, with deletion vectors and delete files, renamed,
widened, partitioned by odd values, and one is also read at an older version.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lakeward as lw

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("i", pa.int32()),
        ("s", pa.string()),
        ("d", pa.date32()),
        ("v", pa.float64()),
        ("f", pa.float32()),
        ("n", pa.decimal128(12, 2)),
        ("b", pa.bool_()),
        ("ts", pa.timestamp("us", "UTC")),
        ("st", pa.struct([("x", pa.int64()), ("y", pa.string())])),
    ]
)
TABLES = ("one", "two", "three", "four", "two_before")
TRAVEL = {"two_before": "two VERSION AS OF 4"}
"""How a query of the lake names what is a table of its own for the engine that is compared."""
_TEXTS = ("a", "aa", "b", "B", "c d", "e'", "f/g=", "é", "")
_FILES, _ROWS = 6, 10
_SIZES = {"few": range(20, 26, 3), "sixty": range(0, 60, 5), "many": range(0, 600, 60)}
"""Tables for joins, of which an engine holds the smaller one in memory, and the first keys of their
files. DataFusion reads these files itself, and skips some by what it knows of the other tables."""
_JOINED = (*TABLES, *_SIZES, *_SIZES, *_SIZES)
_NUMBERS: dict[str, Callable[[int], int]] = {
    "few": lambda n: n - 15,
    "sixty": lambda n: 59 - n,
    "many": lambda n: n // 10,
}
"""Values of the column `i` by those of `k`: a value of one table's `i` skips other files by an `i`
of another table."""


def rows(rng: random.Random, first: int, name: str, count: int = _ROWS) -> pa.Table:
    """Some rows of a table, with keys from `first` on, in which other values may be missing."""

    def maybe(make: Callable[[], Any]) -> Any:
        return None if rng.random() < 0.15 else make()

    def number() -> float:
        odd = (math.nan, math.inf, -0.0, 0.0) if name not in ("two", *_SIZES) else (-0.0, 0.0)
        return rng.choice(odd) if rng.random() < 0.15 else rng.uniform(-5, 5)

    def near(n: int) -> int:
        return n // 3 + rng.randrange(3)

    number_of = _NUMBERS.get(name, near)

    def row(n: int) -> dict[str, Any]:
        return {
            "k": n,
            "i": maybe(lambda: number_of(n)),
            "s": maybe(lambda: rng.choice(_TEXTS if name != "three" else _TEXTS[:-1])),
            "d": maybe(lambda: date(2026, 1, 1) + timedelta(days=n // 10)),
            "v": maybe(number),
            "f": maybe(number),
            "n": maybe(lambda: Decimal(rng.randrange(-500, 500)) / 100),
            "b": maybe(lambda: rng.random() < 0.5),
            "ts": maybe(lambda: NOON + timedelta(hours=n)),
            "st": {"x": maybe(lambda: n % 17), "y": maybe(lambda: rng.choice(_TEXTS))},
        }

    return pa.Table.from_pylist([row(n) for n in range(first, first + count)], schema=SCHEMA)


def make_tables(lake: lw.Lake, rng: random.Random) -> dict[str, pa.Table]:
    """Make the tables in a lake, and return the rows of each."""
    found: dict[str, pa.Table] = {}
    deletes = "k % 7 = 3"
    for name in ("one", "two", "three", "four"):
        files = [rows(rng, n * _ROWS, name) for n in range(_FILES)]
        own = [_before(f) for f in files] if name in ("three", "four") else files
        table = lake.create(name, like=own[0], **_options(name))
        for file in own:
            table.append(file)
        kept = pa.concat_tables(files)
        if name in ("three", "four"):
            with lake.transaction() as tx:
                tx.delete(name, where=deletes)
            with lake.transaction() as tx:
                tx.alter(name).rename_column("old", "i").drop_column("gone")
            late = rows(rng, _FILES * _ROWS, name)
            table.append(late.select(table.schema.names))
            keys = kept["k"].to_numpy()
            kept = pa.concat_tables([kept.filter(pa.array(keys % 7 != 3)), late])
        found[name] = kept
    found["two_before"] = found["two"].slice(0, 4 * _ROWS)
    for name, firsts in _SIZES.items():
        files = [rows(rng, first, name, firsts.step).drop_columns("st") for first in firsts]
        table = lake.create(name, like=files[0], **_options(name))
        for file in files:
            table.append(file)
        found[name] = pa.concat_tables(files)
    return found


def _options(name: str) -> dict[str, Any]:
    match name:
        case "three":
            properties = {"delta.columnMapping.mode": "name"}
            policy = {"merge_on_read": True}
            return {"properties": properties, "policy": policy, "partition_by": ["s"]}
        case "four":
            properties = {"write.delete.mode": "merge-on-read"}
            return {"format": "iceberg", "properties": properties, "partition_by": ["bucket(3, k)"]}
        case "two" | "sixty":
            return {"format": "iceberg"}
        case _:
            return {}


def _before(file: pa.Table) -> pa.Table:
    """The rows as a table had them before it was altered: one column renamed, one more."""
    named = file.rename_columns(["old" if n == "i" else n for n in file.column_names])
    return named.append_column("gone", pc.negate(file["k"]))


class Queries:
    """A generator of queries; the same seed gives the same queries."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def query(self) -> str:
        """The next query; its rows have no order, unless it takes the first of them."""
        shapes = (
            self._plain,
            self._joined,
            self._joined,
            self._three_joined,
            self.joins,
            self._with,
            self._derived,
            self._of_sets,
            self._first_rows,
            self._grouped,
            self._correlated,
        )
        return self._rng.choice(shapes)()

    def _table(self) -> str:
        return self._rng.choice(TABLES)

    def _where(self, *aliases: str) -> str:
        terms = [self.condition(self._rng.choice(aliases)) for _ in range(self._rng.randrange(3))]
        return " AND ".join(terms) or "1 = 1"

    def _plain(self) -> str:
        what = self._rng.choice(["a.*", "a.k, a.v", "count(*), sum(a.i), min(a.s)", "a.st", "1"])
        return f"SELECT {what} FROM {self._table()} a WHERE {self._where('a')}"

    def _joined(self) -> str:
        on = self._rng.choice(["a.k = b.k", "a.i = b.i", "a.k = b.i", "a.s = b.s AND a.k = b.k"])
        kind = self._rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on += f" AND {self.condition(self._rng.choice('ab'))}" if self._rng.random() < 0.6 else ""
        return (
            f"SELECT a.k, b.k, a.s, b.i FROM {self._table()} a {kind} {self._table()} b ON {on}"
            f" WHERE {self._where('a', 'b')}"
        )

    def _three_joined(self) -> str:
        one, other = (self._rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"]) for _ in range(2))
        return (
            f"SELECT a.k, b.k, c.k FROM {self._table()} a {one} {self._table()} b"
            f" ON a.k = b.k AND {self.condition(self._rng.choice('ab'))}"
            f" {other} {self._table()} c ON c.k = {self._rng.choice('ab')}.k"
            f" AND {self.condition(self._rng.choice('abc'))} WHERE {self._where('a', 'b', 'c')}"
        )

    def joins(self) -> str:
        """A query that joins two to five tables, all of which have the same names of columns."""
        rng = self._rng
        aliases = "abcde"[: rng.randrange(2, 6)]
        if rng.random() < 0.4:
            columns = ", ".join(f"{a}.{c} AS {a}{c}" for a in aliases for c in "ki")
            return f"SELECT {columns} FROM {self._inner_joins(aliases)}"
        joined = self._tree(aliases)
        terms = [self._about_joined(aliases) for _ in range(rng.randrange(3))]
        if rng.random() < 0.3:
            inner = f"SELECT y.{rng.choice('ki')} FROM {self._table()} y WHERE y.k IS NOT NULL"
            word = rng.choice(["IN", "NOT IN"])
            terms.append(f"{rng.choice(aliases)}.k {word} ({inner} AND y.i IS NOT NULL)")
        where = " AND ".join(terms) or "1 = 1"
        shown = rng.choice(
            [aliases, sorted(rng.sample(aliases, rng.randrange(1, len(aliases) + 1)))]
        )
        names = [f"{a}.{c} AS {a}{c}" for a in shown for c in rng.choice(["k", "i", "ki", "ki"])]
        columns = ", ".join(names)
        if rng.random() < 0.25:
            order = ", ".join(f"{a}.k NULLS LAST" for a in rng.sample(aliases, len(aliases)))
            return f"SELECT {columns} FROM {joined} WHERE {where} ORDER BY {order} LIMIT 5"
        if rng.random() < 0.15:
            by = f"{aliases[0]}.k, {aliases[-1]}.k"
            return f"SELECT {by}, count(*) FROM {joined} WHERE {where} GROUP BY {by}"
        return f"SELECT {columns} FROM {joined} WHERE {where}"

    def _inner_joins(self, aliases: str) -> str:
        """Inner joins on `k` and `i` by turns, so that joined rows differ in both columns."""
        rng = self._rng
        table = f"{rng.choice(list(_SIZES))} {aliases[0]}"
        if len(aliases) == 1:
            return table
        column = "ki"[len(aliases) % 2]
        rest = self._inner_joins(aliases[1:])
        rest = f"({rest})" if " JOIN " in rest else rest
        on = f"{aliases[0]}.{column} = {rng.choice(aliases[1:])}.{column}"
        return rng.choice([f"{table} JOIN {rest} ON {on}", f"{rest} JOIN {table} ON {on}"])

    def _tree(self, aliases: str) -> str:
        """The joins of some tables, nested at random."""
        if len(aliases) == 1:
            return f"{self._rng.choice(_JOINED)} {aliases}"
        rng = self._rng
        split = rng.randrange(1, len(aliases))
        left, right = aliases[:split], aliases[split:]
        kind = rng.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        columns = rng.choice(["kk", "kk", "ii", "ii", "ki"])
        on = f"{rng.choice(left)}.{columns[0]} = {rng.choice(right)}.{columns[1]}"
        if rng.random() < 0.3:
            on += f" AND {self._about_joined(rng.choice([left, right]))}"
        parts = [self._tree(part) for part in (left, right)]
        first, second = (f"({p})" if " JOIN " in p else p for p in parts)
        return f"{first} {kind} {second} ON {on}"

    def _about_joined(self, aliases: str) -> str:
        """A condition on joined tables, often on what a join leaves empty."""
        rng = self._rng
        one, other = rng.choice(aliases), rng.choice(aliases)
        known = rng.choice(["", "NOT "])
        return rng.choice(
            [
                f"{one}.{rng.choice('ki')} IS {known}NULL",
                f"({one}.k IS NULL OR {other}.i IS {known}NULL)",
                f"({one}.i > {self._value('i')} OR {other}.k IS NULL)",
                f"({one}.k < {other}.i OR {other}.i IS NULL)",
                f"{one}.k <> {other}.i",
                f"{one}.{rng.choice('ki')} {rng.choice('<>')} {self._value('i')}",
            ]
        )

    def _with(self) -> str:
        inner = f"WITH w AS (SELECT * FROM {self._table()} x WHERE {self.condition('x')})"
        if self._rng.random() < 0.5:
            return f"{inner} SELECT a.k, a.s FROM w a WHERE {self._where('a')}"
        return (
            f"{inner} SELECT a.k, b.i FROM w a JOIN w b ON a.k = b.k AND {self.condition('b')}"
            f" WHERE {self._where('a')}"
        )

    def _derived(self) -> str:
        inner = self._rng.choice(
            [
                "SELECT *, row_number() OVER (ORDER BY k) AS r FROM {} x WHERE {}",
                "SELECT k, i, s, d, v, f, n, b, ts, st FROM {} x WHERE {}",
                "SELECT DISTINCT * FROM {} x WHERE {}",
                "SELECT i AS k, CAST(k AS INTEGER) AS i, s, d, v, f, n, b, ts FROM {} x WHERE {}",
                "SELECT * FROM {} x WHERE {} ORDER BY k LIMIT 9",
            ]
        ).format(self._table(), self.condition("x"))
        return f"SELECT a.k, a.i, a.v FROM ({inner}) a WHERE {self._where('a')}"

    def _of_sets(self) -> str:
        word = self._rng.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        columns = "k, i, s, d, v, f, n, b, ts, st"
        parts = [
            f"SELECT {columns} FROM {self._table()} x WHERE {self.condition('x')}" for _ in range(2)
        ]
        return f"SELECT a.k, a.s FROM ({parts[0]} {word} {parts[1]}) a WHERE {self._where('a')}"

    def _first_rows(self) -> str:
        column = self._rng.choice(["k", "i", "s", "d", "v", "n", "ts"])
        how = self._rng.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
        where = f" WHERE {self.condition('a')}" if self._rng.random() < 0.4 else ""
        after = self._rng.choice(["", " OFFSET 4"])
        limit = self._rng.randrange(12)
        table = self._table()
        return (
            f"SELECT a.k, a.{column} FROM {table} a{where}"
            f" ORDER BY a.{column}{how}, a.k LIMIT {limit}{after}"
        )

    def _grouped(self) -> str:
        by = self._rng.choice(["s", "d", "b"])
        having = self._rng.choice(["", " HAVING count(*) > 2", " HAVING min(a.k) < 30"])
        inner = (
            f"SELECT a.{by} AS g, min(a.k) AS k, count(*) AS c FROM {self._table()} a"
            f" WHERE {self._where('a')} GROUP BY a.{by}{having}"
        )
        if self._rng.random() < 0.5:
            return inner
        return f"SELECT z.g FROM ({inner}) z WHERE z.k > {self._rng.randrange(40)} OR z.g IS NULL"

    def _correlated(self) -> str:
        inner, outer = self._table(), self._table()
        same = f"b.i = a.i AND {self.condition('b')}"
        test = self._rng.choice(
            [
                f"EXISTS (SELECT 1 FROM {inner} b WHERE b.k = a.i AND {self.condition('b')})",
                f"NOT EXISTS (SELECT 1 FROM {inner} b WHERE b.i = a.k AND {self.condition('b')})",
                f"a.k IN (SELECT b.i FROM {inner} b WHERE {self.condition('b')})",
                f"a.i NOT IN (SELECT b.i FROM {inner} b WHERE {self.condition('b')})",
                f"a.k > (SELECT avg(b.k) FROM {inner} b WHERE {self.condition('b')})",
                f"a.k <= (SELECT max(b.k) FROM {inner} b WHERE {same})",
            ]
        )
        return f"SELECT a.k, a.i FROM {outer} a WHERE {test} AND {self._where('a')}"

    def condition(self, alias: str, depth: int = 2) -> str:
        """A condition on one table."""
        rng = self._rng
        column = rng.choice(["k", "i", "s", "d", "v", "f", "n", "ts"])
        name = f"{alias}.{column}"
        value: Callable[[], str] = partial(self._value, column)
        op = rng.choice(["=", "<>", "<", "<=", ">", ">="])
        simple = [
            f"{name} {op} {value()}",
            f"{name} {op} {value()}",
            f"{value()} {op} {name}",
            # Not of moments: for a list of them DuckDB needs pytz.
            f"{name} {rng.choice(['', 'NOT '])}IN ({value()}, {value()}, {value()})"
            if column != "ts"
            else f"{name} = {value()}",
            f"{name} {rng.choice(['', 'NOT '])}BETWEEN {value()} AND {value()}",
            f"{name} IS {rng.choice(['', 'NOT '])}NULL",
            f"{name} IS {rng.choice(['', 'NOT '])}DISTINCT FROM {value()}",
            f"{rng.choice(['', 'NOT '])}{alias}.b",
            f"({name} {op} {value()}) IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE'])}",
            f"{alias}.i {op} {alias}.k",
            f"{alias}.v {op} {alias}.f",
            f"{alias}.i + 1 {op} {alias}.k - 20",
            f"{alias}.s LIKE '{rng.choice(['a%', '%', '_', 'e%', 'B'])}'",
            f"coalesce({alias}.i, 7) {op} 7",
            f"CASE WHEN {alias}.k > 30 THEN {alias}.i ELSE 3 END {op} 9",
            f"{alias}.n * 2 {op} 1.5",
            f"{alias}.k {op} {rng.uniform(0, 60):.1f}",
        ]
        if not depth or rng.random() < 0.5:
            return rng.choice(simple)
        left, right = (self.condition(alias, depth - 1) for _ in range(2))
        return f"({left} {rng.choice(['AND', 'OR', 'AND NOT', 'OR NOT'])} ({right}))"

    def _value(self, column: str) -> str:
        rng = self._rng
        match column:
            case "k" | "i":
                return str(rng.randrange(-2, 72))
            case "s":
                return "'" + rng.choice(_TEXTS).replace("'", "''") + "'"
            case "d":
                return f"DATE '{date(2026, 1, 1) + timedelta(days=rng.randrange(9))}'"
            case "v" | "f":
                return rng.choice([f"{rng.uniform(-5, 5):.2f}", "0.0", "0", "2"])
            case "n":
                return f"{rng.randrange(-500, 500) / 100:.2f}"
            case _:
                moment = NOON + timedelta(hours=rng.randrange(60))
                return f"TIMESTAMPTZ '{moment:%Y-%m-%d %H:%M:%S}+00'"
