"""`lakeward export` and `lakeward retention`."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.console import ask, run, tell

ORDERS = "sales.orders"


def test_one_table_and_all_tables_are_exported(shop: Path, tmp_path: Path) -> None:
    rows = ask("show", ORDERS, "--version", "1", "--lake", shop)["rows"]
    one = tmp_path / "one"
    (done,) = ask("export", one, ORDERS, "--version", "1", "--lake", shop)["exports"]
    assert (done["version"], done["rows"]) == (1, rows)
    assert json.loads((one / "manifest.json").read_text())["files"] == done["files"]
    assert ORDERS in tell("export", tmp_path / "all", "--format", "jsonl", "--lake", shop)
    assert (tmp_path / "all" / ORDERS / "part-00000.jsonl").is_file()
    assert run("export", one, ORDERS, "--lake", shop).code == 4
    assert run("export", shop / "x", ORDERS, "--lake", shop).code == 2
    assert run("export", tmp_path / "y", "--version", "1", "--lake", shop).code == 2


def test_retention_is_shown(shop: Path) -> None:
    found = ask("retention", ORDERS, "--lake", shop)
    assert found["oldest_version"] == 0
    assert "90 days" in tell("retention", ORDERS, "--lake", shop)
