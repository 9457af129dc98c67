"""Landing files of CSV and JSON lines: which are taken, and what is known of their columns."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from lakeward.errors import InvalidInput
from lakeward.pipeline import landing
from lakeward.pipeline.arrivals import Arrivals, LandingDirectory
from lakeward.pipeline.file_kinds import FileFormat, FileKind

CSV = FileKind(FileFormat.CSV)
JSON = FileKind(FileFormat.JSON)


def look(place: Path, kind: FileKind) -> Arrivals:
    return LandingDirectory(None, str(place), kind=kind).look({})


def names(found: Arrivals) -> dict[str, list[str]]:
    return {path: schema.names for path, schema in (found.schemas or {}).items()}


def test_files_of_the_declared_format_are_taken_and_others_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,x\n")
    (tmp_path / "b.CSV.gz").write_bytes(gzip.compress(b"name,id\r\nx,1\r\n", mtime=0))
    (tmp_path / "c.jsonl").write_text('{"id": 1}\nbroken\n\n{"id": 2, "more": []}\n[1]\n')
    (tmp_path / "d.ndjson.gz").write_bytes(gzip.compress(b'{"id": 1}\n', mtime=0))
    (tmp_path / "e.parquet").write_bytes(b"x")
    csv, json = look(tmp_path, CSV), look(tmp_path, JSON)
    assert names(csv) == {"a.csv": ["id", "name"], "b.CSV.gz": ["name", "id"]}
    assert csv.not_taken == ("c.jsonl", "d.ndjson.gz", "e.parquet")
    assert names(json) == {"c.jsonl": ["id", "more"], "d.ndjson.gz": ["id"]}


def test_a_header_may_have_quotes_a_mark_of_utf8_and_another_delimiter(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes('\ufeff"a;b";c\n1;2\n'.encode())
    kind = FileKind(FileFormat.CSV, delimiter=";")
    assert names(look(tmp_path, kind)) == {"a.csv": ["a;b", "c"]}
    plain = FileKind(FileFormat.CSV, header=False)
    assert names(look(tmp_path, plain)) == {"a.csv": []}


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.csv", b"id,id\n", "its header names 'id' twice"),
        ("a.csv.gz", gzip.compress(b"id\n1\n", mtime=0)[:-9], "no whole CSV file"),
        ("a.csv.gz", b"id\n", "no whole CSV file"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidInput, match=why):
        look(tmp_path, CSV)


def test_text_files_need_a_schema_and_a_delimiter_of_one_character() -> None:
    with pytest.raises(InvalidInput, match="are not declared"):
        landing("orders", format="csv")
    with pytest.raises(InvalidInput, match="is not one character"):
        landing("orders", format="csv", schema="id BIGINT", delimiter="::")
    with pytest.raises(InvalidInput, match="must be one of parquet, csv, json"):
        landing("orders", format="xml", schema="id BIGINT")
    assert landing("orders", format="JSON", schema="id BIGINT").kind == JSON
