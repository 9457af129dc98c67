"""Rows deleted in place, over many row groups: the same as sorting them out by hand."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.engines.arrow import scan as scanning
from lakeward.engines.arrow import source
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.errors import InvalidExpression
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema

ROWS, GROUP = 1000, 130
SCHEMA = Schema.of({"id": "int64", "name": "string", "part": "string"})
DEFINITION = Definition(SCHEMA, partition_by=(3,))


@pytest.fixture(autouse=True, params=[50, 100_000])
def batches(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Batches that end inside row groups, and such that do not; strings by their dictionaries."""
    monkeypatch.setattr(source, "_BATCH_ROWS", request.param)
    monkeypatch.setattr(source, "_LARGE", 0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files; the rows of each are told apart by their ids."""
    out = tmp_path_factory.mktemp("masked")
    for number in range(4):
        ids = range(number * ROWS, (number + 1) * ROWS)
        table = pa.table({"id": ids, "name": [f"n{i % 7}" for i in ids]})
        pq.write_table(table, out / f"{number}.parquet", row_group_size=GROUP)
    return out


def files(masked: Sequence[bool]) -> list[LoggedFile]:
    return [
        LoggedFile(
            DataFile(
                f"{n}.parquet", 9, ROWS, 0, {3: "p"}, deletion_vector={"n": n} if has else None
            ),
            0,
            n,
        )
        for n, has in enumerate(masked)
    ]


@settings(max_examples=40, deadline=None)
@given(
    masked=st.lists(st.booleans(), min_size=4, max_size=4),
    gone=st.sets(st.one_of(st.integers(0, ROWS - 1), st.integers(GROUP - 2, GROUP + 2))),
    low=st.integers(-1, 4 * ROWS),
    width=st.integers(0, 2 * ROWS),
)
def test_only_deleted_rows_are_missing(
    directory: Path, masked: list[bool], gone: set[int], low: int, width: int
) -> None:
    deleted = array("Q", sorted(gone))

    found = scanning.scan(
        files(masked),
        DEFINITION,
        filesystem=pa.fs.LocalFileSystem(),
        directory=str(directory),
        columns=["part", "name", "id"] if width % 2 else ["part", "name"],
        where=parse(f"id BETWEEN {low} AND {low + width}", SCHEMA),
        deleted=lambda _: deleted,
    ).read_all()

    left = [
        i
        for i in range(max(low, 0), min(low + width + 1, 4 * ROWS))
        if not (masked[i // ROWS] and i % ROWS in gone)
    ]
    assert found["name"].to_pylist() == [f"n{i % 7}" for i in left]
    assert set(found["part"].to_pylist()) <= {"p"}
    if width % 2:
        assert found["id"].to_pylist() == left


@pytest.mark.parametrize("columns", [[], ["name"], ["id", "part"]], ids=str)
@pytest.mark.parametrize("where", [None, "id > 2400 AND name = 'n3'"])
def test_positions_are_those_of_the_file(
    directory: Path, columns: list[str], where: str | None
) -> None:
    gone = array("Q", [0, 1, 500, 999])

    found = scanning.scan(
        files([True] * 4)[2:3],
        DEFINITION,
        filesystem=pa.fs.LocalFileSystem(),
        directory=str(directory),
        columns=columns,
        where=None if where is None else parse(where, SCHEMA),
        deleted=lambda _: gone,
        numbered=True,
    ).read_all()

    left = [n for n in range(ROWS) if n not in gone]
    if where is not None:
        left = [n for n in left if n > 400 and (2 * ROWS + n) % 7 == 3]
    assert found[POSITION].to_pylist() == left
    assert found.column_names == [*columns, POSITION]


def test_a_condition_is_not_computed_for_deleted_rows(directory: Path) -> None:
    where = parse("9223372036854775802 + id > 0", SCHEMA)

    def scan(deleted: array[int]) -> pa.Table:
        return scanning.scan(
            files([True]),
            DEFINITION,
            filesystem=pa.fs.LocalFileSystem(),
            directory=str(directory),
            where=where,
            deleted=lambda _: deleted,
        ).read_all()

    assert scan(array("Q", range(6, ROWS)))["id"].to_pylist() == list(range(6))
    with pytest.raises(InvalidExpression):
        scan(array("Q", range(7, ROWS)))
