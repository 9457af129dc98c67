"""Random SQL pipelines over two source tables, and the truth about their columns by brute force.

A pipeline is a list of statements that every engine understands. DuckDB runs it over sources in
which one column is changed at a time; a column of the target depends on a source column if its
values change.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

COLUMNS = {"s1": ("k", "a", "b", "c"), "s2": ("k", "x", "y")}
MADE = ("c0", "c1")
"""The columns of each table that a pipeline writes."""
ROWS = (3, 6, 12, 24)
"""How many rows a source may have: with few, counts of rows are as large as values are."""
VALUES = 10
FEWEST, MOST = 6, 40
"""Rounds of changes; after the fewest they end when all that is reported has been seen."""
Ref = tuple[str, str]
_MIXED = "(p.k * 7 + p.a * 5 + p.b * 3 + p.c) % 13, p.k, p.a, p.b, p.c"
"""An order of the rows of s1 in which every column counts."""


@dataclass(frozen=True)
class Pipeline:
    """Statements that fill `out`, by way of the other tables that they name.

    Attributes:
        tables: The tables that they write, `out` last.
        statements: In the order in which they run.
    """

    tables: tuple[str, ...]
    statements: tuple[str, ...]

    @property
    def out(self) -> str:
        return self.tables[-1]


def sources(rng: random.Random) -> dict[str, pa.Table]:
    """Source tables with random values and a random number of rows."""
    made = {}
    for name, columns in COLUMNS.items():
        count = rng.choice(ROWS)
        made[name] = pa.table({c: _column(rng, count) for c in columns})
    return made


def pipeline(rng: random.Random, prefix: str) -> Pipeline:
    """A pipeline of two or three tables: the first is made of the sources, the others of it too."""
    middle, out = f"{prefix}_mid", f"{prefix}_out"
    statements = [f"INSERT INTO {middle} {query(rng)}"]
    if rng.random() < 0.5:
        statements.append(_changed(rng, middle))
    between = [f"{prefix}_copy"] if rng.random() < 0.4 else []
    statements += [f"INSERT INTO {table} SELECT c0, c1 FROM {middle}" for table in between]
    last = between[0] if between else middle
    statements.append(f"INSERT INTO {out} {_second(rng, last)}")
    if rng.random() < 0.6:
        statements.append(_merge(rng, out, middle))
    return Pipeline((middle, *between, out), tuple(statements))


def query(
    rng: random.Random, depth: int = 2, *, correlated: bool = False, every: bool = False
) -> str:
    """A random query of two columns, c0 and c1.

    Args:
        rng: Chooses the query.
        depth: How many queries may be inside each other.
        correlated: Whether the query may have a correlated subquery.
        every: Whether the query may have any shape, also one that only DuckDB runs.
    """
    one, two = [f"p.{c}" for c in COLUMNS["s1"]], [f"q.{c}" for c in COLUMNS["s2"]]
    both = one + two
    shapes = 20 if every else 15 if correlated else 14
    kind = rng.randrange(shapes) if depth else rng.randrange(6)
    match kind:
        case 0:
            chosen = f"{_expression(rng, one)} AS c0, {_expression(rng, one)} AS c1"
            return f"SELECT {chosen} FROM s1 p WHERE {_condition(rng, one)}"
        case 1:
            chosen = f"{_expression(rng, both)} AS c0, {_expression(rng, both)} AS c1"
            how = rng.choice(["JOIN", "LEFT JOIN", "FULL JOIN"])
            return f"SELECT {chosen} FROM s1 p {how} s2 q ON p.k = q.k"
        case 2:
            key, how = rng.choice(one), rng.choice(["sum", "max", "min", "count"])
            chosen = f"{key} AS c0, {how}({rng.choice(one)}) AS c1"
            having = rng.choice(["", f" HAVING count(*) > {rng.randrange(3, 6)}"])
            return f"SELECT {chosen} FROM s1 p GROUP BY {key}{having}"
        case 3:
            part, order = rng.sample(one, 2)
            window = f"OVER (PARTITION BY {part} ORDER BY {order})"
            how = rng.choice(["rank()", f"sum({rng.choice(one)})"])
            return f"SELECT {rng.choice(one)} AS c0, {how} {window} AS c1 FROM s1 p"
        case 4:
            chosen = f"count(*) AS c0, max({rng.choice(one)}) AS c1"
            return f"SELECT {chosen} FROM s1 p WHERE {_condition(rng, one)}"
        case 5:
            a, b = rng.sample(one, 2)
            return f"SELECT DISTINCT {a} AS c0, {b} AS c1 FROM s1 p"
        case 6:
            if rng.random() < 0.5:
                return f"{query(rng, 0)} {rng.choice(['UNION ALL', 'UNION'])} {query(rng, 0)}"
            left = f"SELECT {rng.choice(one)} AS c0, 1 AS c1 FROM s1 p"
            right = (
                f"SELECT {rng.choice(two)} AS c0, 1 AS c1 FROM s2 q WHERE {_condition(rng, two)}"
            )
            return f"{left} {rng.choice(['EXCEPT', 'INTERSECT'])} {right}"
        case 7:
            chosen = rng.choice(
                ["c1 AS c0, c0 + 1 AS c1", "*", "w.*", "c0, count(*) OVER () AS c1"]
            )
            return f"WITH w AS ({query(rng, depth - 1)}) SELECT {chosen} FROM w"
        case 8:
            return f"SELECT * FROM ({query(rng, depth - 1)}) AS d WHERE d.c0 > {rng.randrange(3)}"
        case 9:
            inner = f"SELECT {rng.choice(two)} FROM s2 q WHERE {_condition(rng, two)}"
            chosen = f"{rng.choice(one)} AS c0, {rng.choice(one)} AS c1"
            no = rng.choice(["", "NOT "])
            return f"SELECT {chosen} FROM s1 p WHERE p.k {no}IN ({inner})"
        case 10:
            text = f"WITH v AS ({query(rng, 0)}), w AS (SELECT v.c0 AS k, v.c1 AS z FROM v)"
            return f"{text} SELECT w.z AS c0, q.x AS c1 FROM w JOIN s2 q ON q.k = w.k"
        case 11:
            text = f"SELECT d.c0 AS c0, count(*) AS c1 FROM ({query(rng, depth - 1)}) d"
            return f"{text} GROUP BY d.c0"
        case 12:
            chosen = f"{rng.choice(one)} AS c0, {rng.choice(one)} AS c1"
            return f"SELECT {chosen} FROM s1 p ORDER BY {_MIXED} LIMIT {rng.randrange(5, 12)}"
        case 13:
            chosen = f"row_number() OVER (PARTITION BY p.k ORDER BY {_MIXED}) AS n"
            inner = f"SELECT p.*, {chosen} FROM s1 p"
            a, b = rng.choice(COLUMNS["s1"]), rng.choice(COLUMNS["s1"])
            return f"SELECT r.{a} AS c0, r.{b} AS c1 FROM ({inner}) r WHERE r.n = 1"
        case 14:
            inner = f"SELECT max({rng.choice(two)}) FROM s2 q WHERE q.k = p.k"
            return f"SELECT {rng.choice(one)} AS c0, ({inner}) AS c1 FROM s1 p"
        case 15:
            inner = f"SELECT q.k FROM s2 q WHERE {_condition(rng, two)}"
            chosen = f"{rng.choice(one)} AS c0, {rng.choice(one)} AS c1"
            how = rng.choice(["SEMI", "ANTI"])
            return f"SELECT {chosen} FROM s1 p {how} JOIN ({inner}) w ON w.k = p.k"
        case 16:
            chosen = f"{rng.choice(one)} AS c0, sum({rng.choice(one)}) AS c1"
            return f"SELECT {chosen} FROM s1 p GROUP BY ALL"
        case 17:
            chosen = f"{rng.choice(one)} AS c0, {rng.choice(one)} AS c1"
            return f"SELECT DISTINCT ON (p.k) {chosen} FROM s1 p ORDER BY p.k, {_MIXED}"
        case 18:
            inner = f"SELECT * FROM s1 p ORDER BY {_MIXED}"
            a, b = rng.choice(COLUMNS["s1"]), rng.choice(COLUMNS["s1"])
            return f"SELECT o.{a} AS c0, o.{b} AS c1 FROM ({inner}) o LIMIT {rng.randrange(2, 5)}"
        case _:
            left = f"SELECT {rng.choice(one)} AS c0, {rng.choice(one)} AS c1 FROM s1 p"
            right = f"SELECT {rng.choice(two)} AS c1, {rng.choice(two)} AS c0 FROM s2 q"
            return f"{left} {rng.choice(['UNION', 'UNION ALL'])} BY NAME {right}"


def truth_of_query(rng: random.Random, text: str, said: list[set[Ref]]) -> list[set[Ref]]:
    """For both columns of a query, the source columns that change it."""
    run = Pipeline(("truth_out",), (f"INSERT INTO truth_out {text}",))
    return truth(rng, run, said)


def truth(rng: random.Random, run: Pipeline, said: list[set[Ref]]) -> list[set[Ref]]:
    """For both columns of a pipeline's target, the source columns that change it.

    Args:
        rng: Chooses the changes.
        run: The pipeline.
        said: What is reported of both columns; rounds go on while some of it was not seen.
    """
    found: list[set[Ref]] = [set(), set()]
    with duckdb.connect(config={"threads": 1}) as connection:
        for number in range(MOST):
            if number >= FEWEST and all(own <= seen for own, seen in zip(said, found, strict=True)):
                break
            own = sources(rng)
            before = _values(connection, run, own)
            for name, columns in COLUMNS.items():
                for place, column in enumerate(columns):
                    if all((name, column) in seen for seen in found):
                        continue
                    changed_column = _column(rng, own[name].num_rows)
                    new = own[name].set_column(place, column, changed_column)
                    changed = {**own, name: new}
                    after = _values(connection, run, changed)
                    for target in (0, 1):
                        if after[target] != before[target]:
                            found[target].add((name, column))
    return found


def _column(rng: random.Random, count: int) -> pa.Array:
    """Small numbers, and a null here and there."""
    values = [rng.randrange(VALUES) if rng.random() < 0.95 else None for _ in range(count)]
    return pa.array(values, pa.int64())


def _values(
    connection: duckdb.DuckDBPyConnection, run: Pipeline, data: dict[str, pa.Table]
) -> list[list[Any]]:
    """The values of both columns of the target, each sorted."""
    for name, table in data.items():
        connection.register(name, table)
    for name in run.tables:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {name} (c0 BIGINT, c1 BIGINT)")
    for statement in run.statements:
        connection.execute(statement)
    rows = connection.execute(f"SELECT c0, c1 FROM {run.out}").fetchall()
    return [sorted(row[n] if row[n] is not None else -1 for row in rows) for n in (0, 1)]


def _second(rng: random.Random, middle: str) -> str:
    """A query over a table that an earlier statement made."""
    match rng.randrange(7):
        case 0:
            return f"SELECT * FROM {middle}"
        case 1:
            return f"SELECT m.c1 AS c0, m.c0 + 1 AS c1 FROM {middle} m WHERE m.c0 > 1"
        case 2:
            return f"SELECT m.c0 AS c0, q.y AS c1 FROM {middle} m JOIN s2 q ON q.k = m.c1"
        case 3:
            return f"SELECT m.c0 AS c0, sum(m.c1) AS c1 FROM {middle} m GROUP BY m.c0"
        case 4:
            return f"SELECT count(*) AS c0, max(c1) AS c1 FROM {middle}"
        case 5:
            return f"SELECT p.a AS c0, p.b AS c1 FROM s1 p WHERE p.k IN (SELECT c0 FROM {middle})"
        case _:
            counted = f"SELECT count(*) FROM {middle}"
            return f"SELECT p.a AS c0, ({counted}) AS c1 FROM s1 p"


def _changed(rng: random.Random, table: str) -> str:
    """An UPDATE or DELETE of a table by its own columns."""
    a, b = rng.sample(MADE, 2)
    if rng.random() < 0.5:
        return f"DELETE FROM {table} WHERE {_condition(rng, list(MADE))}"
    return f"UPDATE {table} SET {a} = {b} + 1 WHERE {_condition(rng, list(MADE))}"


def _merge(rng: random.Random, out: str, middle: str) -> str:
    """A MERGE of one row per key."""
    if rng.random() < 0.5:
        column = rng.choice(COLUMNS["s1"])
        source = f"SELECT p.k AS c0, max(p.{column}) AS c1 FROM s1 p GROUP BY p.k"
    else:
        source = f"SELECT m.c0 AS c0, min(m.c1) AS c1 FROM {middle} m GROUP BY m.c0"
    matched = rng.choice(
        [
            "WHEN MATCHED THEN UPDATE SET c1 = s.c1",
            "WHEN MATCHED AND t.c1 > 2 THEN UPDATE SET c1 = t.c1 + s.c1",
            "WHEN MATCHED AND s.c1 > 3 THEN DELETE",
            "WHEN MATCHED AND s.c1 > 3 THEN DELETE WHEN MATCHED THEN UPDATE SET c1 = s.c1",
            "WHEN MATCHED AND s.c1 > 3 THEN UPDATE SET c0 = 5 WHEN MATCHED THEN UPDATE SET c1 = 0",
        ]
    )
    missing = rng.choice(["", " WHEN NOT MATCHED THEN INSERT (c0, c1) VALUES (s.c0, s.c1)"])
    return f"MERGE INTO {out} AS t USING ({source}) AS s ON t.c0 = s.c0 {matched}{missing}"


def _expression(rng: random.Random, names: list[str]) -> str:
    a, b = rng.choice(names), rng.choice(names)
    return rng.choice([a, f"{a} + {b}", f"{a} * 2", f"CASE WHEN {a} > 2 THEN {b} ELSE 7 END"])


def _condition(rng: random.Random, names: list[str]) -> str:
    return f"{rng.choice(names)} {rng.choice(['<', '>=', '<>'])} {rng.randrange(2, VALUES - 1)}"
