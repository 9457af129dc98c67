"""What the documentation shows is what happens: every example and every Python block is run."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import EXAMPLES, ROOT, Block, Page, blocks, pages, region
from tests.support.s3 import S3Server
from tests.support.sparks import JAVA_OPTIONS, PROGRAM

NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
ON_POSTGRES = "open_on_postgres.py"
ON_S3 = "on_s3.py"
AS_IT_IS = "spark_stream.py"
"""Runs with all of Spark's own settings; the others without generated code, which takes longer to
compile than to run on so few rows."""
ON_SPARK = [name for name in NAMES if name.startswith("spark_")]
NOISE = (
    "CATALOG_NOT_FOUND",
    "Your hostname",
    "NativeCodeLoader",
    "default log4j profile",
    "default log level",
    "Truncated the string",
    "locally checkpointed",
)
"""What Spark tells of itself that nobody who runs a transaction can do anything about."""


@pytest.mark.parametrize("name", [n for n in NAMES if n not in (ON_POSTGRES, ON_S3, *ON_SPARK)])
def test_an_example_prints_what_the_documentation_says(name: str, tmp_path: Path) -> None:
    assert run(name, tmp_path) == documented_output(name)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ON_SPARK)
def test_an_example_on_spark_prints_what_the_documentation_says(name: str, tmp_path: Path) -> None:
    # Spark tells of its progress on standard error, and Java of its options.
    settings = {"JAVA_TOOL_OPTIONS": JAVA_OPTIONS} if name == AS_IT_IS else PROGRAM
    around = {"LAKEWARD_CACHE": str(ROOT / ".jars"), **settings}
    printed = run(name, tmp_path, noise=NOISE, patience=900, **around)
    assert printed == documented_output(name)


@pytest.mark.postgres
def test_the_example_on_postgres_prints_what_the_documentation_says(
    postgres_url: str, tmp_path: Path
) -> None:
    printed = run(ON_POSTGRES, tmp_path, LAKEWARD_LAKE=postgres_url)
    assert printed == documented_output(ON_POSTGRES)


@pytest.mark.s3
def test_the_example_on_s3_prints_what_the_documentation_says(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    around: dict[str, Any] = s3_server.options()
    printed = run(ON_S3, tmp_path, LAKEWARD_WAREHOUSE=f"s3://{bucket}/wh", **around)
    assert printed == documented_output(ON_S3)


@pytest.mark.parametrize(
    "block", [b for b in blocks("python") if b.title], ids=lambda b: f"{b}-{b.title}"
)
def test_a_block_from_an_example_equals_it(block: Block) -> None:
    assert block.text == region(block.title)


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_shown(name: str) -> None:
    assert any(b.title.partition("#")[0] == f"examples/{name}" for b in blocks("python"))


@pytest.mark.parametrize(
    "page",
    [p for p in pages() if any(b.language == "python" and not b.title for b in p.blocks)],
    ids=str,
)
def test_python_blocks_of_a_page_run_and_print_what_it_says(
    page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    after = [*page.blocks[1:], None]
    for block, following in zip(page.blocks, after, strict=True):
        if block.language != "python" or block.title:
            continue
        printed = io.StringIO()
        source = "\n" * block.line + block.text
        with contextlib.redirect_stdout(printed):
            exec(compile(source, str(page.path), "exec"), names)  # the documentation is ours
        if following is not None and following.title == "prints":
            assert printed.getvalue() == following.text, str(block)
        else:
            assert not printed.getvalue(), f"{block} prints what the page does not show"


def test_outputs_belong_to_something_that_prints() -> None:
    outputs = [b for b in blocks("text") if b.title]
    assert all(b.title == "prints" or b.title.startswith("output of examples/") for b in outputs)


def run(
    name: str,
    directory: Path,
    *,
    noise: Sequence[str] = ("",),
    patience: int = 240,
    **environment: str,
) -> str:
    """What an example prints; no part of `noise` may stand on standard error, which is any."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name)],
        cwd=directory,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr or not [said for said in noise if said in done.stderr], done.stderr
    return done.stdout


def documented_output(name: str) -> str:
    title = f"output of {(EXAMPLES / name).relative_to(ROOT)}"
    found = {b.text for b in blocks("text") if b.title == title}
    assert len(found) == 1, f"the output of {name} is documented {len(found)} times"
    return found.pop()
