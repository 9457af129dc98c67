"""`lakeward ingest`: rows from files and standard input into a table, each once."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import lakeward as lw
from lakeward.cli.main import app
from tests.cli.console import ask, run, tell

COLUMNS = "id int64, what string"
_WHOLE_JSON = '{"id": 1, "what": "one"}\n{"id": 2, "what": "two"}'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    directory = tmp_path / "lake"
    with lw.open(directory):
        pass
    return directory


def ids(place: Path, name: str = "t") -> list[int]:
    with lw.open(place) as lake:
        return sorted(lake.table(name).to_arrow()["id"].to_pylist())


def test_files_are_taken_once(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"id": 1}\n{"id": 2, "what": "x"}\n')
    common = ("ingest", "--lake", place, "--from", path, "--into", "t")
    first = ask(*common, "--schema", COLUMNS, "--epoch-rows", "1")
    assert (first["rows"], first["epochs"], first["version"]) == (2, 1, 1)
    path.write_text(path.read_text() + '{"id": 3}\n')
    assert "1 row in 1 epoch into t, which is at version 2." in tell(*common)
    again = ask(*common)
    assert (again["rows"], again["last_epoch"]) == (0, 1)
    edges = ask("lineage", "--lake", place, "--file", "a.ndjson")["edges"]
    assert [(e["source"]["name"], e["target"]["name"]) for e in edges] == [(str(path), "t")]
    assert ids(place) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["parquet", "csv", "csv.gz", "jsonl.gz"])
def test_files_of_every_format_are_taken_once(place: Path, tmp_path: Path, kind: str) -> None:
    def write(number: int, *rows: int) -> None:
        path = tmp_path / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.table({"id": rows, "what": ["x"] * len(rows)}), path)
            return
        text = "".join(f'{{"id": {n}}}\n' for n in rows)
        if "csv" in kind:
            text = "id,what\n" + "".join(f"{n},x\n" for n in rows)
        path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())

    write(1, 1, 2)
    write(2, 3)
    common = ("ingest", "--lake", place, "--from", tmp_path / f"*.{kind}", "--into", "t")
    assert ask(*common, "--schema", COLUMNS, "--epoch-rows", "1")["rows"] == 3
    write(1, 1, 2, 4)
    assert ask(*common)["rows"] == 1
    assert ask(*common)["rows"] == 0
    assert ids(place) == [1, 2, 3, 4]
    write(1, 1)
    answer = run(*common)
    assert (answer.code, "Another file took its place" in answer.err) == (2, True)


@pytest.mark.parametrize(
    ("kind", "states", "what"),
    [
        ("csv", ["id,wh", "id,what\n1,one\n2,tw", "id,what\n1,one\n2,two\n"], "two"),
        ("csv", ['id,what\n1,one\n2,"a\n', 'id,what\n1,one\n2,"a\nb"\n'], "a\nb"),
        ("csv", ['id,what\n1,one\n2,"a\n\nb', 'id,what\n1,one\n2,"a\n\nb"\n'], "a\n\nb"),
        ("csv", ['id,what\n1,one\n2,"a\nb"', 'id,what\n1,one\n2,"a\nb"\n'], "a\nb"),
        ("tsv", ["id\twhat\n1\tone\n2", "id\twhat\n1\tone\n2\ttwo\n"], "two"),
        ("jsonl", ['{"id": 1, "what": "one"}\n{"id": 2, "w', _WHOLE_JSON], "two"),
    ],
)
def test_a_half_last_line_is_left_until_it_is_complete(
    place: Path, tmp_path: Path, kind: str, states: list[str], what: str
) -> None:
    path = tmp_path / f"a.{kind}"
    common = ("ingest", "--lake", place, "--from", path, "--into", "t", "--schema", COLUMNS)
    for text in states[:-1]:
        path.write_text(text)
        answer = run(*common)
        assert (answer.code, "may be incomplete, and was not taken" in answer.err) == (2, True)
    path.write_text(states[-1])
    assert ask(*common)["rows"] == 1
    with lw.open(place) as lake:
        found = {r["id"]: r["what"] for r in lake.table("t").to_arrow().to_pylist()}
    assert found == {1: "one", 2: what}


def test_a_value_of_a_csv_file_that_does_not_fit_is_named(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,what\n1,x\nfive,y\n")
    common = ("--lake", place, "--into", "t", "--schema", COLUMNS)
    answer = run("ingest", "--from", tmp_path / "a.csv", *common)
    assert answer.code == 2
    assert "Column id of t is int64; 'five' in line 3 of" in answer.err
    assert ids(place) == []


def test_a_table_is_made_like_a_file(place: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,day\n1,2026-01-01\n")
    common = ("create", "t", "--like", tmp_path / "a.csv", "--lake", place)
    assert "Table t is made" in tell(*common)
    assert "Table t is at" in tell(*common, "--if-not-exists")
    assert run(*common).code == 4
    with lw.open(place) as lake:
        assert str(lake.table("t").schema) == "id: int64\nday: date"


def test_lines_come_from_standard_input(place: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "lakeward", "ingest", "--lake", str(place)),
            *("--from", "-", "--into", "sales.events", "--schema", COLUMNS),
        ],
        input=b'{"id": 1}\n{"id": 2}',
        capture_output=True,
        check=True,
        env={**os.environ},
    )
    assert b"2 rows in 1 epoch into sales.events" in done.stdout
    assert ids(place, "sales.events") == [1, 2]


def test_a_stream_of_batches_comes_from_standard_input(place: Path) -> None:
    written = io.BytesIO()
    with pa.ipc.new_stream(written, pa.schema({"id": pa.int64()})) as writer:
        writer.write_batch(pa.record_batch({"id": [1, 2]}))
    arguments = ["--from", "-", "--into", "t", "--schema", "id int64", "--format", "arrow"]
    for more in ([], ["--replay"]):
        answer = CliRunner().invoke(
            app, ["ingest", "--lake", str(place), *arguments, *more], input=written.getvalue()
        )
        assert answer.exit_code == 0, answer.output
    assert ids(place) == [1, 2]


def test_changes_are_merged_by_key(place: Path, tmp_path: Path) -> None:
    changes = ('{"id": 1}\n{"id": 2}\n', '{"id": 1, "_change_type": "delete"}')
    for number, text in enumerate(changes):
        path = tmp_path / f"{number}.json"
        path.write_text(text)
        ask(
            *("ingest", "--lake", place, "--from", path, "--into", "t", "--mode", "upsert"),
            *("--key", "id", "--schema", COLUMNS, "--table-format", "iceberg"),
        )
    assert ids(place) == [2]


def test_a_line_that_does_not_fit_ends_with_code_2(place: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": 1}\nnonsense\n')
    answer = run(
        "ingest", "--lake", place, "--from", path, "--into", "t", "--schema", COLUMNS, "--json"
    )
    assert answer.code == 2
    assert answer.error["facts"]["line"] == 2
    assert ids(place) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--from", "none.json"], 3),
        (["--from", "none-*.csv"], 3),
        (["--from", "a.json", "--from", "-"], 2),
        (["--from", "a.json", "--from", "b.arrow"], 2),
        (["--from", "a.json", "--format", "xml"], 2),
        (["--from", "-", "--format", "csv"], 2),
        (["--from", "a.json", "--replay"], 2),
        (["--from", "a.json", "--follow"], 2),
        (["--from", "ftp://somewhere/a"], 2),
        (["--from", "kafka://host"], 2),
        (["--from", "kafka://host/topic", "--format", "arrow"], 2),
        (["--from", "a.json", "--mode", "upsert"], 2),
        (["--from", "a.json", "--key", "id"], 2),
        (["--from", "a.json", "--epoch-rows", "0"], 2),
        ([], 2),
    ],
)
def test_what_makes_no_sense_is_refused(place: Path, arguments: list[str], code: int) -> None:
    for file in ("a.json", "b.arrow"):
        Path(file).touch()
    answer = run("ingest", "--lake", place, "--into", "t", "--schema", COLUMNS, *arguments)
    assert answer.code == code


def test_a_table_that_is_not_there_ends_with_code_3(place: Path) -> None:
    assert run("ingest", "--lake", place, "--from", "a.json", "--into", "t").code == 3


def test_arrow_files_are_taken_once_by_a_pattern(place: Path, tmp_path: Path) -> None:
    for number in (1, 2):
        batch = pa.record_batch({"id": [number], "what": ["x"]})
        with pa.ipc.new_file(tmp_path / f"{number}.arrow", batch.schema) as writer:
            writer.write_batch(batch)
    common = ("ingest", "--lake", place, "--from", tmp_path / "*.arrow", "--into", "t")
    assert ask(*common, "--schema", COLUMNS)["rows"] == 2
    assert ask(*common)["rows"] == 0
    assert ids(place) == [1, 2]
