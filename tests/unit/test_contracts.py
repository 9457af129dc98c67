"""Rules of the code that no import contract can state, read from its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import lakeward

SOURCE = Path(lakeward.__file__).parent
INSERTING = {
    ("commits", "insert"),
    ("commits", "insert_many"),
    ("definitions", "insert"),
    ("files", "insert"),
}
COMMIT_POINT = "write/commit/record.py"


def test_only_the_commit_point_inserts_versions() -> None:
    """Versions of tables are given out and inserted in one module."""
    called = {
        (name, ".".join(call))
        for name, tree in modules()
        for call in calls(tree)
        if call in INSERTING
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
