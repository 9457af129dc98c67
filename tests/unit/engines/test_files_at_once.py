"""A scan reads files as rows are taken, so that a slow reader does not hold the whole table."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from lakeward.engines.arrow import source
from lakeward.errors import FileMissing


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_files_are_not_read_before_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str | None
) -> None:
    monkeypatch.setattr(source, "_BYTES_AT_ONCE", 0)
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
