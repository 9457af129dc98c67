"""A scan reads files as rows are taken, so that a slow reader does not hold the whole table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.engines.arrow import at_once, source
from lakeward.errors import FileMissing


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_files_are_not_read_before_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    monkeypatch.setattr(at_once, "_BYTES_AT_ONCE", 0)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64")
        for number in range(5):
            table.append([{"id": number}])
        reader = table.to_reader(where=where)
        assert reader.read_next_batch().to_pylist() == [{"id": 0}]

        newest = max(Path(table.location).glob("*.parquet"), key=lambda p: p.stat().st_mtime_ns)
        newest.unlink()

        with pytest.raises(FileMissing):
            reader.read_all()


@pytest.mark.parametrize("kind", ["int64", "struct<a: int64, b: double>", "string"])
def test_files_that_repeat_values_count_as_large_as_their_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(at_once, "_BYTES_AT_ONCE", 200_000)
    value = {"int64": 7, "string": "a word"}.get(kind, {"a": 1, "b": 2.0})
    counts: list[int] = []

    def counted(*args: Any) -> int:
        counts.append(at_once.files_at_once(*args))
        return counts[-1]

    monkeypatch.setattr(source, "files_at_once", counted)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", f"x {kind}")
        for _ in range(5):
            table.append({"x": [value] * 20_000})
        assert table.totals().bytes < 20_000
        rows = table.to_reader().read_all()
    assert rows.num_rows == 100_000
    assert rows["x"].to_pylist() == [value] * 100_000
    assert counts in ([1], [2])
