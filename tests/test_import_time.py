"""`import lakeward` is light: what takes long to load is loaded by whoever uses it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

_HEAVY = (
    "datafusion",
    "deltalake",
    "numpy",
    "orjson",
    "pandas",
    "polars",
    "psycopg",
    "pyarrow",
    "rich",
    "sqlalchemy",
    "sqlglot",
    "tenacity",
    "typer",
)


def _loaded(code: str) -> set[str]:
    """The top-level modules that a fresh process has loaded after running some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout.splitlines()[-1])}


def test_importing_lakeward_loads_nothing_heavy() -> None:
    assert _loaded("import lakeward") & set(_HEAVY) == set()


def test_looking_at_names_and_errors_loads_nothing_heavy() -> None:
    code = "import lakeward as lw\ndir(lw)\nlw.errors.TableNotFound\nlw.open"

    assert _loaded(code) & set(_HEAVY) == set()


def test_an_ordinary_lake_loads_no_engine_of_others(tmp_path: object) -> None:
    code = f"""
import lakeward as lw
with lw.open({str(tmp_path)!r}) as lake:
    lake.create("t", {{"id": "int64"}})
    with lake.transaction() as tx:
        tx.append("t", [{{"id": 1}}])
    lake.table("t").to_arrow()
"""
    # pandas is not among them: pyarrow itself looks for it.
    unused = {"datafusion", "deltalake", "polars", "psycopg", "rich", "sqlglot", "typer"}

    assert _loaded(code) & unused == set()


@pytest.mark.parametrize("name", ["Lake", "Table", "Transaction", "CommitResult", "Collision"])
def test_public_classes_load_when_they_are_asked_for(name: str) -> None:
    assert "pyarrow" in _loaded(f"import lakeward; lakeward.{name}")
