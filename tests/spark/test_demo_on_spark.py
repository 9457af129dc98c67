"""The main job: the demo on Spark, small, every check of it, and what it says when one fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.cli.demo import spark_story
from tests.cli.console import program, run


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_the_demo_holds_all_its_checks(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    found = program("demo", "--scale", "0.05", "--into", place, "--json")
    assert found.code == 0, (found.out[-3000:], found.err[-3000:])
    answer = found.json
    assert answer["ok"]
    checks = [c["what"] for step in answer["steps"] for c in step["checks"]]
    assert len(answer["steps"]) == len(spark_story.STEPS)
    for engine in ("deltalake", "DuckDB delta", "DuckDB iceberg", "pyiceberg"):
        assert any(what.startswith(f"{engine} ") for what in checks), engine

    runs = run("runs", "--lake", place / "lake", "--json").json["runs"]
    assert [r["state"] for r in runs] == ["ratified", "ratified", "failed", "ratified", "ratified"]
    shown = run("runs", "show", runs[2]["run"], "--lake", place / "lake")
    assert "price" in shown.out
    idle = run(
        "run",
        Path(spark_story.__file__).with_name("shop_pipeline.py"),
        "--landing",
        place / "landing",
        "--lake",
        place / "lake",
        "--json",
    )
    assert idle.json == {"pipeline": "shop", "committed": False}
