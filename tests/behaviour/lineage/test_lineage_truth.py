"""Column lineage against the truth: change a source column, and see which target columns change.

Random pipelines with joins, groups, windows, unions, common table expressions, subqueries, stars,
updates, deletes and merges are run in a lake. DuckDB runs the same statements over changed sources.
What changes must be reported, and little may be reported that never changes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lakeward as lw
from lakeward.model.lineage.graph import EdgeKind
from lakeward.model.lineage.statement import statement_lineage
from tests.support.random_pipelines import (
    COLUMNS,
    MADE,
    Pipeline,
    Ref,
    pipeline,
    query,
    sources,
    truth,
    truth_of_query,
)

FORMATS = ("delta", "iceberg")
_MOST = 0.1
"""The share of reported dependencies that may never change anything."""
_MOST_OF_FEW = 0.25
"""The same for a few queries, where chance decides more; many are compared by `make faults`."""


def through_lake(lake: lw.Lake, run: Pipeline, format_: str) -> list[set[Ref]]:
    """What the lake says of both columns of the target after it ran the pipeline."""
    for name in run.tables:
        lake.create(name, dict.fromkeys(MADE, "int64"), format=format_)
    for statement in run.statements:
        with lake.transaction() as tx:
            tx.sql(statement)
    return [reported(lake, run.out, column) for column in MADE]


def reported(lake: lw.Lake, out: str, column: str) -> set[Ref]:
    """The columns of sources that a column of a table depends on, over any number of steps."""
    found: set[Ref] = set()
    for edge in lake.table(out).lineage(column=column).columns:
        name, own = edge.source.name, edge.source.column
        if name in COLUMNS and own is not None:
            found.add((name, own))
        elif name in COLUMNS and edge.kind is EdgeKind.UNKNOWN:
            found.update((name, each) for each in COLUMNS[name])
    return found


def downstream(lake: lw.Lake, source: str, column: str) -> set[str]:
    edges = lake.table(source).lineage(direction="downstream", column=column).columns
    return {str(e.target) for e in edges}


def from_text(text: str) -> list[set[Ref]]:
    """What is found from a statement alone, without the lake."""
    shapes = {**COLUMNS, "out": MADE}
    found = statement_lineage(f"INSERT INTO out {text}", "duckdb", shapes)
    assert found is not None
    assert found.columns is not None, text
    own = [found.columns[column] for column in MADE]
    return [{ref for ref in o.values | o.rows if ref[1]} for o in own]


class Tally:
    """Compares what is reported with the truth."""

    def __init__(self) -> None:
        self.reported = self.spurious = 0

    def add(self, said: list[set[Ref]], real: list[set[Ref]], about: object) -> None:
        for n, column in enumerate(MADE):
            assert real[n] - said[n] == set(), f"missed for {column} of {about}"
            self.reported += len(said[n])
            self.spurious += len(said[n] - real[n])

    def check(self, most: float) -> None:
        figures = f"{self.spurious} of {self.reported} dependencies never changed anything"
        print(figures)
        assert self.spurious <= most * self.reported, figures


def check(directory: Path, seed: int, count: int, most: float) -> None:
    rng, tally = random.Random(seed), Tally()
    with lw.open(directory / "lake") as lake:
        for name, rows in sources(rng).items():
            lake.create(name, dict.fromkeys(COLUMNS[name], "int64"))
            lake.table(name).append(rows)
        for number in range(count):
            run = pipeline(rng, f"r{number}")
            said = through_lake(lake, run, FORMATS[number % 2])
            tally.add(said, truth(rng, run, said), run)
        for name, columns in COLUMNS.items():
            for column in columns:
                below = downstream(lake, name, column)
                above = {
                    f"r{number}_out.{own}"
                    for number in range(count)
                    for own in MADE
                    if (name, column) in reported(lake, f"r{number}_out", own)
                }
                assert above <= below, f"downstream of {name}.{column} misses {above - below}"
    tally.check(most)


def test_nothing_that_changes_a_column_of_a_pipeline_is_missed(tmp_path: Path) -> None:
    check(tmp_path, 1, 4, _MOST_OF_FEW)


def test_nothing_that_changes_a_column_of_a_query_is_missed() -> None:
    rng, tally = random.Random(2), Tally()
    for _ in range(8):
        text = query(rng, every=True)
        said = from_text(text)
        tally.add(said, truth_of_query(rng, text, said), text)
    tally.check(_MOST_OF_FEW)


@pytest.mark.full
def test_nothing_is_missed_of_many_pipelines(tmp_path: Path) -> None:
    check(tmp_path, 3, 150, _MOST)


@pytest.mark.full
def test_nothing_is_missed_of_many_queries() -> None:
    rng, tally = random.Random(4), Tally()
    for _ in range(400):
        text = query(rng, every=True)
        said = from_text(text)
        tally.add(said, truth_of_query(rng, text, said), text)
    tally.check(_MOST)
