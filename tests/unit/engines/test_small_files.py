"""A small file is read without a scanner; nobody can tell from the rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from lakeward.engines.arrow import source
from lakeward.engines.arrow.scan import scan
from lakeward.errors import FileMissing, StorageError
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.values import Value

_IDS = pa.array([1, 2, None], pa.int64())
_TEXTS = pa.array(["a", None, "b"])
_FILES: dict[str, tuple[dict[str, Any], pa.Table]] = {
    "same types": ({"id": "int64", "t": "string"}, pa.table({"id": _IDS, "t": _TEXTS})),
    "other order": ({"id": "int64", "t": "string"}, pa.table({"t": _TEXTS, "id": _IDS})),
    "one column more": ({"id": "int64"}, pa.table({"id": _IDS, "t": _TEXTS})),
    "one column less": ({"id": "int64", "t": "string"}, pa.table({"id": _IDS})),
    "narrow type": ({"id": "int64"}, pa.table({"id": _IDS.cast(pa.int32())})),
    "large strings": ({"t": "string"}, pa.table({"t": _TEXTS.cast(pa.large_string())})),
    "dictionary": ({"t": "string"}, pa.table({"t": _TEXTS.dictionary_encode()})),
    "names with dots": ({"a.b": "int64"}, pa.table({"a.b": _IDS, "a": _TEXTS})),
    "name before a dot": ({"a": "string"}, pa.table({"a.b": _IDS, "a": _TEXTS})),
    "nested": (
        {"s": "struct<x: int64, y: string>"},
        pa.table({"s": pa.StructArray.from_arrays([_IDS, _TEXTS], ["x", "y"])}),
    ),
    "no rows": ({"id": "int64"}, pa.table({"id": _IDS.slice(0, 0)})),
    "never null": (
        {"id": "int64"},
        pa.table([_IDS.slice(0, 2)], schema=pa.schema([pa.field("id", pa.int64(), False)])),
    ),
    "far timestamps": (
        {"at": "timestamp_ntz"},
        pa.table({"at": pa.array([16_725_225_600_000_000, None], pa.timestamp("us"))}),
    ),
}


def _written(directory: Path, rows: pa.Table, partition: dict[int, Value] | None = None) -> Any:
    path = directory / "f.parquet"
    pq.write_table(rows, path)
    file = DataFile(path.name, path.stat().st_size, rows.num_rows, 0, partition=partition or {})
    return LoggedFile(file, 0, 0)


def _read(directory: Path, definition: Definition, file: LoggedFile) -> pa.Table:
    place = pa.fs.LocalFileSystem()
    return scan([file], definition, filesystem=place, directory=str(directory)).read_all()


@pytest.mark.parametrize("name", _FILES)
def test_rows_are_those_of_a_scanner(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, rows = _FILES[name]
    definition = Definition(Schema.of(columns))
    file = _written(tmp_path, rows)

    found = _read(tmp_path, definition, file)
    monkeypatch.setattr(source, "_SMALL", -1)
    scanned = _read(tmp_path, definition, file)

    assert found.to_pylist() == scanned.to_pylist()
    assert found.schema == scanned.schema
    assert found.num_rows == rows.num_rows


def test_old_timestamps_of_other_writers_keep_their_year(tmp_path: Path) -> None:
    columns, rows = _FILES["far timestamps"]
    file = _written(tmp_path, rows)
    pq.write_table(rows, tmp_path / file.path, use_deprecated_int96_timestamps=True)

    found = _read(tmp_path, Definition(Schema.of(columns)), file)

    assert found.to_pylist() == rows.to_pylist()


def test_no_scanner_is_made_for_a_small_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns, rows = _FILES["same types"]
    file = _written(tmp_path, rows)
    monkeypatch.setattr(source.TableFiles, "_scanned", None)

    assert _read(tmp_path, Definition(Schema.of(columns)), file).equals(rows)


def test_the_partition_value_of_the_log_wins_over_that_of_the_file(tmp_path: Path) -> None:
    schema = Schema.of({"id": "int64", "t": "string"})
    definition = Definition(schema, partition_by=(schema.by_name["t"].id,))
    rows = pa.table({"id": [1, 2], "t": ["file", "file"]})
    file = _written(tmp_path, rows, {schema.by_name["t"].id: "log"})

    assert _read(tmp_path, definition, file)["t"].to_pylist() == ["log", "log"]


def test_a_missing_file_is_named_as_missing(tmp_path: Path) -> None:
    columns, rows = _FILES["same types"]
    file = _written(tmp_path, rows)
    (tmp_path / file.path).unlink()

    with pytest.raises(FileMissing, match=r"f\.parquet"):
        _read(tmp_path, Definition(Schema.of(columns)), file)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    columns, rows = _FILES["same types"]
    file = _written(tmp_path, rows)
    place = tmp_path / file.path
    place.write_bytes(place.read_bytes()[:-9])

    with pytest.raises(StorageError, match=r"f\.parquet"):
        _read(tmp_path, Definition(Schema.of(columns)), file)
