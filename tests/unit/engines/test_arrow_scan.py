"""Large scans read repeating strings by their dictionaries; nobody can tell from the rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow import scan as scanning
from lakeward.engines.arrow import source
from lakeward.errors import FileMissing
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema

ROWS = 5000
SCHEMA = Schema.of({"id": "int64", "name": "string", "text": "string"})
DEFINITION = Definition(SCHEMA)


@pytest.fixture(autouse=True)
def every_scan_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "_LARGE", 0)


def rows(start: int) -> pa.Table:
    """`name` repeats and is sometimes missing; `text` never repeats."""
    ids = range(start, start + ROWS)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": pa.array([None if i % 11 == 0 else f"name-{i % 7}" for i in ids]),
            "text": pa.array([f"text-{i * 7919}" for i in ids]),
        }
    )


def write(directory: Path, *tables: pa.Table) -> list[LoggedFile]:
    out = []
    for number, table in enumerate(tables):
        path = directory / f"{number}.parquet"
        pq.write_table(table, path, store_schema=False)
        out.append(LoggedFile(DataFile(path.name, path.stat().st_size, ROWS, 0), 0, number))
    return out


def scan(
    directory: Path,
    files: list[LoggedFile],
    columns: list[str] | None = None,
    where: str | None = None,
) -> pa.Table:
    return scanning.scan(
        files,
        DEFINITION,
        filesystem=pa.fs.LocalFileSystem(),
        directory=str(directory),
        columns=columns,
        where=None if where is None else parse(where, SCHEMA),
    ).read_all()


def repeating(directory: Path, files: list[LoggedFile], names: list[str]) -> frozenset[str]:
    paths = [f"{directory}/{f.path}" for f in files]
    return source._repeating(files, paths, pa.fs.LocalFileSystem(), names)


def test_strings_that_repeat_come_back_as_the_strings_they_are(tmp_path: Path) -> None:
    files = write(tmp_path, rows(0), rows(ROWS))

    found = scan(tmp_path, files)

    assert repeating(tmp_path, files, ["name", "text"]) == {"name"}
    assert found == pa.concat_tables([rows(0), rows(ROWS)])
    assert found.schema.field("name").type == pa.string()


def test_a_file_whose_strings_do_not_repeat_is_read_like_the_others(tmp_path: Path) -> None:
    other = rows(ROWS)
    other = other.set_column(1, "name", other.column("text").slice(0, ROWS))
    files = write(tmp_path, rows(0), other.slice(0, ROWS // 2))

    assert repeating(tmp_path, files, ["name"]) == {"name"}
    assert scan(tmp_path, files) == pa.concat_tables([rows(0), other.slice(0, ROWS // 2)])


def test_a_file_without_the_column_gives_nulls(tmp_path: Path) -> None:
    files = write(tmp_path, rows(0), rows(ROWS).drop_columns(["name", "text"]))

    found = scan(tmp_path, files, ["name", "id"])

    assert found.column_names == ["name", "id"]
    assert found.slice(0, ROWS) == rows(0).select(["name", "id"])
    assert found.slice(ROWS).column("name").null_count == ROWS


def test_a_condition_on_a_repeating_column_keeps_the_right_rows(tmp_path: Path) -> None:
    files = write(tmp_path, rows(0))

    found = scan(tmp_path, files, ["id", "name"], "name = 'name-3' AND id < 100")

    wanted = [i for i in range(100) if i % 7 == 3 and i % 11]
    assert found.column("id").to_pylist() == wanted
    assert set(found.column("name").to_pylist()) == {"name-3"}


def test_a_missing_file_is_named_as_missing(tmp_path: Path) -> None:
    files = write(tmp_path, rows(0))
    (tmp_path / files[0].path).unlink()

    with pytest.raises(FileMissing):
        scan(tmp_path, files)
