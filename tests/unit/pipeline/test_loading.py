"""Pipelines from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.errors import InvalidInput, NotFound
from lakeward.pipeline.pipeline import load

ONE = 'from lakeward.pipeline import Pipeline\npipeline = Pipeline("one")\nalso = pipeline\n'
TWO = ONE + 'other = Pipeline("two")\n'


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "pipeline.py"
    file.write_text(text)
    return file


def test_the_only_pipeline_of_a_file_is_meant(tmp_path: Path) -> None:
    assert load(written(tmp_path, ONE)).name == "one"


def test_one_of_several_is_chosen_by_name(tmp_path: Path) -> None:
    file = written(tmp_path, TWO)
    assert load(file, "two").name == "two"
    with pytest.raises(InvalidInput, match="one, two"):
        load(file)
    with pytest.raises(NotFound, match="no pipeline 'three'"):
        load(file, "three")


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "lakeward_test_beside.py").write_text('NAME = "beside"\n')
    text = (
        "from lakeward.pipeline import Pipeline\nfrom lakeward_test_beside import NAME\n"
        "pipeline = Pipeline(NAME)\n"
    )
    assert load(written(tmp_path, text)).name == "beside"


def test_files_that_are_missing_empty_or_broken_are_told(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no file"):
        load(tmp_path / "pipeline.py")
    with pytest.raises(NotFound, match="no pipeline"):
        load(written(tmp_path, "x = 1\n"))
    with pytest.raises(InvalidInput, match="ZeroDivisionError"):
        load(written(tmp_path, "1 / 0\n"))
