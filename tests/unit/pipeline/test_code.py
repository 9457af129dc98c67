"""Hashes of a pipeline's code, and where a step's function stands."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from lakeward.pipeline import code
from lakeward.pipeline.code import Code
from lakeward.pipeline.pipeline import load

FILE = """from lakeward.pipeline import Pipeline, landing

pipeline = Pipeline("one")
HELPER = {helper}

@pipeline.step("a", schema="id int64"{options})
def a(batch=landing("in")):
    return batch.filter("id > {number}")
"""


def hashes(tmp_path: Path, **changes: Any) -> dict[str, Any]:
    parts = {"helper": 1, "options": "", "number": 1, **changes}
    (tmp_path / "pipeline.py").write_text(FILE.format(**parts))
    steps = load(tmp_path / "pipeline.py").steps()
    return code.of_pipeline({str(s.target): (s.code, s.declared) for s in steps})


def test_the_hash_changes_with_the_function_its_file_and_what_is_declared(tmp_path: Path) -> None:
    first = hashes(tmp_path)
    assert first == hashes(tmp_path)
    function, helper = hashes(tmp_path, number=2), hashes(tmp_path, helper=2)
    declared = hashes(tmp_path, options=', comment="x"')
    found = {h["sha256"] for h in (first, function, helper, declared)}
    assert len(found) == 4
    assert function["steps"]["a"]["sha256"] != first["steps"]["a"]["sha256"]
    assert helper["steps"]["a"]["sha256"] == first["steps"]["a"]["sha256"]
    assert helper["steps"]["a"]["file_sha256"] != first["steps"]["a"]["file_sha256"]


def test_the_hash_is_the_same_wherever_the_file_lies(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = hashes(tmp_path / "a"), hashes(tmp_path / "b")
    assert one["sha256"] == other["sha256"]
    assert one["steps"]["a"]["file"] != other["steps"]["a"]["file"]


def test_code_without_a_source_is_told_apart_by_what_it_was_compiled_to() -> None:
    def compiled(text: str) -> Code:
        space: dict[str, Any] = {}
        exec(text, space)
        return Code.of(space["f"])

    one = compiled("def f(x): return [y + 1 for y in x]")
    assert one.sha256 == compiled("def f(x): return [y + 1 for y in x]").sha256
    assert one.sha256 != compiled("def f(x): return [y + 2 for y in x]").sha256
    assert one.file_sha256 is None


def test_a_wrapped_function_is_meant_itself() -> None:
    def inner(x: int) -> int:
        return x

    @functools.wraps(inner)
    def outer(x: int) -> int:
        return inner(x)

    assert Code.of(outer) == Code.of(inner)
    assert Code.of(functools.partial(inner, 1)).function == "partial"
