"""The doctor manages tables of very many files, in little time and memory."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path

import lakeward as lw
from tests.maintain.damage import look
from tests.support.sizes import sizes

_SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in (("id", "long"), ("name", "string"), ("amount", "double"))
    ],
}


def _write_table(place: Path, count: int) -> None:
    """A Delta table whose files are real and hold a byte; nobody reads their rows here."""
    (place / "_delta_log").mkdir(parents=True)
    lines = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "4f0ad0b4-2b0c-4e4e-9a4c-0e6d2c1d5a11",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(_SCHEMA),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    for number in range(count):
        path = f"d{number % 100:02d}/f{number:06d}.parquet"
        low, high = number * 10, number * 10 + 9
        stats = {
            "numRecords": 10,
            "minValues": {"id": low, "name": f"n{low}", "amount": low / 2},
            "maxValues": {"id": high, "name": f"n{high}", "amount": high / 2},
            "nullCount": {"id": 0, "name": 0, "amount": 0},
        }
        add = {
            "path": path,
            "partitionValues": {},
            "size": 1,
            "modificationTime": 1,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
        lines.append({"add": add})
        if number < 100:
            (place / path).parent.mkdir()
        (place / path).write_bytes(b"x")
    text = "\n".join(map(json.dumps, lines))
    (place / "_delta_log" / f"{0:020d}.json").write_text(text)


@sizes("count", short=3_000, full=100_000, hours=0.5)
def test_a_table_of_many_files_is_examined_in_seconds(tmp_path: Path, count: int) -> None:
    place = tmp_path / "many"
    _write_table(place, count)
    with lw.open(tmp_path / "lake") as lake:
        lake.adopt("many", place)
        started = time.process_time()
        report = look(lake)
        took = time.process_time() - started
        tracemalloc.start()
        look(lake)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    print(f"doctor: {count:,} files in {took:.1f} s, {peak / 2**20:.0f} MiB at most")
    assert report.findings == ()
    assert report.files == count
    assert took < 60
    assert peak < 256 * 2**20
