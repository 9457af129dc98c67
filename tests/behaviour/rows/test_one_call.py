"""Methods of a table that change it: each call is a transaction of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation


@pytest.fixture
def stock(lake: lw.Lake, table_format: str) -> lw.Table:
    columns = {"id": "int64", "n": "int64"}
    return lake.create("stock", columns, format=table_format, constraints={"some": "n >= 0"})


def rows(table: lw.Table) -> list[tuple[int, int]]:
    return sorted((row["id"], row["n"]) for row in table.to_arrow().to_pylist())


def test_each_call_commits_one_version_with_its_message(stock: lw.Table) -> None:
    done = stock.append([{"id": n, "n": n} for n in (1, 2, 3)], message="opening")
    assert dict(done.versions) == {"stock": 1}
    stock.merge([{"id": 3, "n": 30}, {"id": 4, "n": 40}], on="id")
    stock.update(set={"n": "n + 1"}, where="id = 1")
    stock.delete(where="id = 2", message="gone")
    assert rows(stock) == [(1, 2), (3, 30), (4, 40)]
    stock.overwrite([{"id": 4, "n": 0}], where="id = 4")
    assert rows(stock) == [(1, 2), (3, 30), (4, 0)]
    stock.overwrite([{"id": 9, "n": 9}])
    assert rows(stock) == [(9, 9)]

    messages = [version.message for version in stock.history()]
    assert messages == [None, None, "gone", None, None, "opening", None]


def test_a_merge_takes_the_clauses_of_a_transaction(stock: lw.Table) -> None:
    stock.append([{"id": 1, "n": 1}, {"id": 2, "n": 2}])
    stock.merge(
        [{"id": 1, "n": 10}, {"id": 5, "n": 5}],
        on="id",
        matched={"n": "target.n + source.n"},
        not_matched=None,
        not_matched_by_source="delete",
    )
    assert rows(stock) == [(1, 11)]


def test_a_call_that_fails_changes_nothing(stock: lw.Table) -> None:
    stock.append([{"id": 1, "n": 1}])
    with pytest.raises(ConstraintViolation):
        stock.append([{"id": 2, "n": 2}, {"id": 3, "n": -1}])
    assert stock.version == 1
    assert rows(stock) == [(1, 1)]


def test_a_reader_that_can_be_read_once_is_never_committed_in_part(
    lake: lw.Lake, stock: lw.Table
) -> None:
    stock.append([{"id": 1, "n": 1}])
    batches = pa.Table.from_pylist([{"id": 1, "n": 7}]).to_reader()

    def others_first() -> Iterator[pa.RecordBatch]:
        lake.run(lambda tx: tx.overwrite("stock", [{"id": 1, "n": 99}]))
        yield from batches

    with pytest.raises(Conflict):
        stock.overwrite(others_first(), where="id = 1")
    assert rows(stock) == [(1, 99)]


@pytest.mark.local
def test_a_lake_that_nobody_holds_serves_its_table(tmp_path: Path) -> None:
    lw.open(tmp_path).create("stock", {"id": "int64"}).append([{"id": 1}])
    assert lw.open(tmp_path).table("stock").to_arrow().num_rows == 1
