"""`lakeward run` where there is nothing for Spark to do: what is wrong or left out is told."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from tests.cli.console import ask, run, tell

FILE = """from lakeward.pipeline import Pipeline, landing

pipeline = Pipeline("one")

@pipeline.step("sales", schema="id int64, amount int64")
def sales(batch=landing("in")):
    return batch
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "pipeline.py").write_text(FILE)
    (tmp_path / "landing" / "in").mkdir(parents=True)
    with lw.open(tmp_path / "lake") as lake:
        lake.create("sales", "id int64, amount int64")
    return tmp_path / "pipeline.py"


def arguments(file: Path, landing: str = "landing") -> list[str | Path]:
    place = file.parent
    return ["run", file, "--landing", place / landing, "--lake", place / "lake"]


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_files_that_are_not_taken_are_named(file: Path, option: list[str]) -> None:
    (file.parent / "landing" / "in" / "monday.csv").write_text("id,amount\n")
    assert "monday.csv" in tell(*arguments(file), *option)
    (notice,) = ask(*arguments(file), *option)["notices"]
    assert (notice["kind"], notice["sample"]) == ("files_not_taken", ["monday.csv"])


@pytest.mark.parametrize("option", [[], ["--dry-run"]])
def test_a_landing_directory_that_does_not_exist_is_an_error(file: Path, option: list[str]) -> None:
    answer = run(*arguments(file, "landign"), *option, "--json")
    assert answer.code == 3
    assert "landign/in does not exist" in answer.error["message"]


def test_a_column_that_the_table_lacks_is_an_error(file: Path) -> None:
    file.write_text(FILE.replace("amount int64", "amount int64, note string"))
    answer = run(*arguments(file), "--json")
    assert answer.code == 2
    assert answer.error["type"] == "SchemaMismatch"
    assert answer.error["facts"]["columns"] == ["note"]
