"""`import lakeward` is light: what takes long to load is loaded by whoever uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.main import get_group

import lakeward as lw
from lakeward.cli import commands
from lakeward.cli.catalogue import MODULES

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


_ASKED_OF_THE_LOG = (
    "tables",
    "show iceberg",
    "history iceberg",
    "diff delta 0 1",
    "tag list",
)
_NOT_FOR_THE_LOG = (
    "lakeward.engines.arrow",
    "lakeward.formats.base",
    "lakeward.formats.delta.format",
    "lakeward.formats.iceberg.format",
    "lakeward.model.evolution",
    "lakeward.model.expressions",
    "lakeward.pipeline",
    "lakeward.stream",
    "lakeward.write.stage",
    "lakeward.write.tables",
    "lakeward.write.transaction.transaction",
    "pandas",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pydantic",
    "pyiceberg",
    "sqlglot",
)
_MOST_MODULES = 198
"""Of `lakeward`, for a command that asks the log: one takes about 0.5 ms of CPU to load."""


def _modules(code: str) -> set[str]:
    """The modules that a fresh process has loaded after running some code."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def _loaded(code: str) -> set[str]:
    """The top-level packages of these modules."""
    return {name.partition(".")[0] for name in _modules(code)}


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


@pytest.mark.parametrize("name", ["Lake", "Table", "Transaction", "Collision"])
def test_public_classes_load_when_they_are_asked_for(name: str) -> None:
    assert "pyarrow" in _loaded(f"import lakeward; lakeward.{name}")


@pytest.fixture(scope="module")
def small_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("small") / "lake"
    with lw.open(place) as lake:
        for kind in ("delta", "iceberg"):
            lake.create(kind, {"id": "int64"}, format=kind)
            with lake.transaction() as tx:
                tx.append(kind, [{"id": 1}])
    return place


@pytest.mark.parametrize("line", _ASKED_OF_THE_LOG)
def test_a_command_that_asks_the_log_loads_neither_formats_nor_engines(
    small_lake: Path, line: str
) -> None:
    arguments = ["--lake", str(small_lake), *line.split()]

    found = _modules(
        f"""
from lakeward.cli.main import app
from typer.main import get_command
assert get_command(app).main({arguments!r}, standalone_mode=False) == 0
"""
    )

    unwanted = {m for m in found for name in _NOT_FOR_THE_LOG if f"{m}.".startswith(f"{name}.")}
    assert unwanted == set()
    assert len([m for m in found if m.startswith("lakeward.cli.commands.")]) == 1
    assert len([m for m in found if m.startswith("lakeward")]) <= _MOST_MODULES


def test_the_catalogue_names_the_commands_of_every_module() -> None:
    places = Path(commands.__file__).parent.glob("[a-z]*.py")
    registered = {}
    for name in (place.stem for place in places):
        app = typer.Typer()
        import_module(f"lakeward.cli.commands.{name}").register(app)
        registered[name] = set(get_group(app).commands)

    assert {name: set(found) for name, found in MODULES.items()} == registered
