"""Every package that the source imports is a dependency that `pyproject.toml` declares."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from tests.support.pythons import ROOT

SOURCE = ROOT / "src" / "lakeward"
# Libraries that a user brings: rows come from them and go to them where they are there.
BROUGHT = {"duckdb", "pandas", "polars", "pyyaml"}
# Packages that others bring, of which they are a part for their users.
BROUGHT_BY = {"py4j": "pyspark"}
# Packages that are in an environment of their own, because they cap what others need.
ELSEWHERE = {"airflow": ["apache-airflow"]}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_imported_package_is_declared() -> None:
    core, extras = _names(PROJECT["dependencies"]), _names(_extras())
    undeclared = {
        f"{module}: {path.relative_to(SOURCE)}"
        for path, module, _ in _imports()
        if not _distributions(module) & (core | extras | BROUGHT)
    }

    assert undeclared == set()


def test_what_is_imported_with_a_module_comes_with_the_core() -> None:
    """Only an import inside a function may need an extra: `import lakeward` never does."""
    core = _names(PROJECT["dependencies"])
    allowed = {SOURCE / "engines", SOURCE / "formats", SOURCE / "integrations", SOURCE / "web"}
    early = {
        f"{module}: {path.relative_to(SOURCE)}"
        for path, module, at_once in _imports()
        if at_once and not _distributions(module) & core and not allowed & set(path.parents)
    }

    assert early == set()


def test_the_readme_names_every_extra() -> None:
    table = (ROOT / "README.md").read_text().partition("| extra |")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall("`(\\w+)`", row[:40])}

    assert named == set(PROJECT["optional-dependencies"])


@cache
def _imports() -> list[tuple[Path, str, bool]]:
    """Imports of other people's packages: file, top-level module, and whether at module level."""
    found = []
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        late = {
            id(node)
            for outer in ast.walk(tree)
            if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_types(outer)
            for node in ast.walk(outer)
        }
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module]
            elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
                names = re.findall(r"^f?['\"](\w+)", ast.unparse(node.args[0]))
            tops = {name.partition(".")[0] for name in names}
            found += [
                (path, top, id(node) not in late)
                for top in tops - sys.stdlib_module_names - {"lakeward", "lakeward_demo"}
            ]
    return found


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _distributions(module: str) -> set[str]:
    module = BROUGHT_BY.get(module, module)
    return {_plain(name) for name in _installed().get(module, ELSEWHERE.get(module, []))}


_installed = cache(packages_distributions)


def _extras() -> list[str]:
    return [line for lines in PROJECT["optional-dependencies"].values() for line in lines]


def _names(requirements: list[str]) -> set[str]:
    return {_plain(re.match(r"[\w.-]+", line)[0]) for line in requirements}  # type: ignore[index]


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
