"""Rules of the code that no import contract can state, read from its syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import lakeward

pytestmark = pytest.mark.xdist_group("contracts")  # the source is parsed once
SOURCE = Path(lakeward.__file__).parent
INSERTING = {
    ("commits", "insert"),
    ("commits", "insert_many"),
    ("definitions", "insert"),
    ("files", "insert"),
}
COMMIT_POINT = "write/commit/record.py"
FORMAT_NAMES = {"delta", "iceberg"}
FORMAT_CONSTANTS = {("DeltaFormat", "name"), ("IcebergFormat", "name"), ("iceberg", "FORMAT")}
MAY_COMPARE: set[str] = set()
"""Modules that still compare a format's name; it stays empty."""
SQL = re.compile(
    r"\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|MERGE INTO|WITH|PRAGMA|(ALTER|CREATE|DROP) \w+)\s"
)
OF_OTHER_ENGINES = (
    "engines/spark/",
    "engines/datafusion.py",
    "integrations/datafusion_writes.py",
    "model/described.py",
    "model/evolution/clauses.py",
    "model/lineage/texts.py",
    "engines/sql/",
    "pipeline/",
    "read/lineage.py",
    "write/spark/",
    "write/transaction/embedded_sql.py",
    "write/transaction/flows.py",
)
"""Modules whose SQL is for an engine, or is only parsed for lineage; none is for the store."""


def test_only_the_commit_point_inserts_versions() -> None:
    """Versions of tables are given out and inserted in one module."""
    called = {
        (name, ".".join((known.get(module, module), function)))
        for name, tree in modules()
        for known in [log_modules(tree)]
        for module, function in calls(tree)
        if (known.get(module, module), function) in INSERTING
    }
    imported = [
        f"{name}: {node.module}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for what in node.names
        if (str(node.module).rpartition(".")[2], what.name) in INSERTING
    ]
    assert imported == []
    assert {name for name, _ in called} == {COMMIT_POINT}
    assert {call for _, call in called} == {".".join(pair) for pair in INSERTING}


def log_modules(tree: ast.AST) -> dict[str, str]:
    """Modules of `lakeward.log` by the names that a module imports them under."""
    return {
        what.asname: what.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "lakeward.log"
        for what in node.names
        if what.asname is not None
    }


def test_sql_for_the_store_is_only_in_the_log() -> None:
    above = [(name, tree) for name, tree in modules() if not name.startswith("log/")]
    imported = {
        f"{name}: {module}"
        for name, tree in above
        for module in imports(tree)
        if module.startswith(("sqlalchemy", "lakeward.log.statement", "lakeward.log.tables"))
    }
    texts = {
        f"{name}: {text[:60]}"
        for name, tree in above
        if not name.startswith(OF_OTHER_ENGINES)
        for text in literals(tree)
        if SQL.match(text)
    }
    assert imported == set()
    assert texts == set()


def test_no_module_has_more_than_400_lines() -> None:
    """A module has one idea; a longer one is split by its ideas."""
    lines = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert [f"{path.relative_to(SOURCE)}: {n}" for path, n in lines.items() if n > 400] == []


def test_commands_answer_with_records_only() -> None:
    """`answer` and `say` print the JSON form of records; only the demo shows a view of its own."""
    shown = {name for name, tree in modules() for call in calls(tree) if call == ("cli", "show")}
    views = [
        f"{name}: {node.name}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id == "View" for base in node.bases)
    ]
    assert shown == {"cli/commands/demo.py"}
    assert views == ["cli/output/base.py: Answer"]


def test_the_command_line_and_the_service_reach_into_no_object() -> None:
    """What they need is public: private names are only those of their own module or class."""
    reached = [
        f"{name}:{node.lineno}: {node.attr}"
        for name, tree in modules()
        if name.startswith(("cli/", "web/"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]
    assert reached == []


def test_no_format_is_compared_outside_formats() -> None:
    """Code outside of `formats` calls a table's format and never asks which one it is."""
    compared = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        if not name.startswith("formats/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.pattern) and any(map(_names_format, parts(node)))
    ]
    assert [place for place in compared if place.partition(":")[0] not in MAY_COMPARE] == []


def _names_format(node: ast.AST) -> bool:
    """Whether a node is a format's name: the text, or the constant of a format's class."""
    if isinstance(node, ast.Constant):
        return node.value in FORMAT_NAMES
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and (node.value.id, node.attr) in FORMAT_CONSTANTS
    )


def parts(node: ast.Compare | ast.pattern) -> Iterator[ast.AST]:
    """What a comparison compares, the elements of tuples, lists and sets included."""
    if isinstance(node, ast.pattern):
        yield from ast.walk(node)
        return
    for one in (node.left, *node.comparators):
        yield from one.elts if isinstance(one, ast.Tuple | ast.List | ast.Set) else (one,)


@cache
def _parsed() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text()))
        for path in sorted(SOURCE.rglob("*.py"))
    )


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module of the package, parsed, by its path below it."""
    yield from _parsed()


def calls(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Owner and name of every function that is called as an attribute of a plain name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.value.id, node.attr


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported, wherever the import stands, and every name of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (what.name for what in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{what.name}" for what in node.names)


def literals(tree: ast.Module) -> Iterator[str]:
    """Every string literal that is no docstring; of an f-string, its parts."""
    docs = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value
