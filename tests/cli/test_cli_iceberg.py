"""Commands on Iceberg tables, and on transactions over both formats."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

import lakeward as lw
from tests.cli.console import ask, run, tell

ROWS = [{"id": 1, "day": "2026-01-01"}, {"id": 2, "day": "2026-01-02"}]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with an Iceberg and a Delta table, changed together and the first one alone."""
    place = tmp_path_factory.mktemp("both") / "lake"
    with lw.open(place) as lake:
        columns = {"id": "int64", "day": "string"}
        lake.create("sales.ice", columns, format="iceberg", partition_by=["day"])
        lake.create("sales.delta", columns)
        with lake.transaction(message="together") as tx:
            tx.append("sales.ice", ROWS)
            tx.append("sales.delta", ROWS)
        with lake.transaction() as tx:
            tx.delete("sales.ice", where="id = 1")
    return place


def test_create_makes_an_iceberg_table(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    run("init", lake)
    made = ask("create", "t", "id int64", "--format", "iceberg", "--lake", lake)
    assert (made["format"], made["version"]) == ("iceberg", 0)
    shown = ask("show", "t", "--lake", lake)
    assert shown["snapshot_id"] is None
    assert Path(shown["metadata_location"]).is_file()


@pytest.mark.parametrize("options", [("--format", "hudi"), ("--property", "write.x=1")])
def test_create_refuses_what_a_format_has_not(tmp_path: Path, options: tuple[str, str]) -> None:
    run("init", tmp_path)
    answer = run("create", "t", "id int64", *options, "--lake", tmp_path, "--json")
    assert answer.code == 2
    assert answer.error["hint"]
    assert ask("tables", "--lake", tmp_path)["tables"] == []


def test_tables_tells_formats_apart(both: Path) -> None:
    found = {t["name"]: t for t in ask("tables", "--lake", both)["tables"]}
    assert [found[n]["format"] for n in ("sales.delta", "sales.ice")] == ["delta", "iceberg"]
    text = tell("tables", "--lake", both)
    (line,) = [line for line in text.splitlines() if "sales.ice" in line]
    assert line.split()[:5] == ["sales.ice", "iceberg", "2", "1", "1"]


def test_show_tells_where_other_engines_find_the_table(both: Path) -> None:
    found = ask("show", "sales.ice", "--lake", both)
    document = orjson.loads(Path(found["metadata_location"]).read_bytes())
    assert found["snapshot_id"] == document["current-snapshot-id"]
    assert found["partition_by"] == ["day"]
    text = tell("show", "sales.ice", "--lake", both)
    assert "iceberg, in the lake's catalog" in text
    assert str(found["snapshot_id"]) in text
    assert found["metadata_location"] in text.replace("\n", "").replace(" ", "")


def test_show_at_a_version_has_the_snapshot_of_that_version(both: Path) -> None:
    first = ask("show", "sales.ice", "--version", "1", "--lake", both)
    newest = ask("show", "sales.ice", "--lake", both)
    assert first["snapshot_id"] not in (None, newest["snapshot_id"])
    assert ask("show", "sales.ice", "--version", "0", "--lake", both)["snapshot_id"] is None


def test_show_of_a_delta_table_has_no_snapshot(both: Path) -> None:
    found = ask("show", "sales.delta", "--lake", both)
    assert (found["snapshot_id"], found["metadata_location"]) == (None, None)
    assert "snapshot" not in tell("show", "sales.delta", "--lake", both)


def test_history_and_versions_tell_the_snapshots(both: Path) -> None:
    history = ask("history", "sales.ice", "--lake", both)["versions"]
    document = orjson.loads(
        Path(ask("show", "sales.ice", "--lake", both)["metadata_location"]).read_bytes()
    )
    made = [s["snapshot-id"] for s in document["snapshots"]]
    assert [v["snapshot_id"] for v in history] == [made[1], made[0], None]
    oldest_first = ask("versions", "sales.ice", "--lake", both)["versions"]
    assert oldest_first == history[::-1]
    assert str(made[1]) in tell("history", "sales.ice", "--lake", both)
    delta = ask("history", "sales.delta", "--lake", both)["versions"]
    assert {v["snapshot_id"] for v in delta} == {None}
    assert "snapshot" not in tell("history", "sales.delta", "--lake", both)


def test_history_tells_the_transaction_over_both_formats(both: Path) -> None:
    ice = ask("history", "sales.ice", "--transaction", "--lake", both)["versions"][1]
    delta = ask("history", "sales.delta", "--transaction", "--lake", both)["versions"][0]
    assert ice["tables"] == delta["tables"] == {"sales.delta": 1, "sales.ice": 1}
    assert ice["transaction_id"] == delta["transaction_id"]
    assert ice["timestamp"] == delta["timestamp"]


def test_diff_and_read_work_as_on_delta_tables(both: Path) -> None:
    diff = ask("diff", "sales.ice", "1", "2", "--lake", both)
    assert (diff["rows_added"], diff["rows_removed"]) == (0, 1)
    assert [p["partition"] for p in diff["partitions"]] == ["day=2026-01-01"]
    assert "day=2026-01-01" in tell("diff", "sales.ice", "1", "2", "--lake", both)
    assert ask("read", "sales.ice", "--lake", both)["rows"] == ROWS[1:]
    assert ask("read", "sales.ice", "--version", "1", "--lake", both)["rows"] == ROWS
    found = ask("read", "sales.ice", "--version", "1", "--where", "id = 1", "--lake", both)
    assert found["rows"] == ROWS[:1]
