"""The main job: the demo on Spark, small, every check of it, and what it says when one fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from lakeward_demo import spark_story
from tests.cli.console import run
from tests.support.sparks import PROGRAM

ROOT = Path(__file__).parents[2]


@pytest.mark.crash
@pytest.mark.timeout(1800)
def test_the_demo_holds_all_its_checks(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    done = subprocess.run(
        [sys.executable, "-m", "lakeward", "demo", "--scale", "0.05", "--into", place, "--json"],
        env={
            **os.environ,
            "LAKEWARD_CACHE": str(ROOT / ".jars"),
            **PROGRAM,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr[-3000:])
    answer = orjson.loads(done.stdout)
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
    assert idle.json == {"pipeline": "shop", "committed": False, "notices": []}
