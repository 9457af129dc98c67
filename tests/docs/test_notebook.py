"""The notebook of the examples runs cell by cell, and each cell shows what it is about."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import lakeward as lw

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def _run(source: str, names: dict[str, Any]) -> Any:
    """Run a cell; return the value of its last line, as a notebook shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


def test_the_notebook_runs_and_shows_its_results() -> None:
    notebook = json.loads(NOTEBOOK.read_text())
    assert notebook["nbformat"] == 4
    names: dict[str, Any] = {}
    shown = []
    for cell in notebook["cells"]:
        assert not cell.get("outputs"), "the notebook is stored without outputs"
        if cell["cell_type"] == "code":
            value = _run("".join(cell["source"]), names)
            if value is not None:
                shown.append(value)
    lake = names["lake"]
    assert isinstance(lake, lw.Lake)
    _, query, history, travel, difference, plot = shown
    assert [row["country"] for row in query.to_pylist()] == ["DE", "FR", "IT"]
    assert [entry.version for entry in history] == [2, 1, 0]
    now, before = sorted(row["price"] for row in travel.to_pylist())
    assert now < before
    assert difference.rows.changed > 0
    for value in (query, travel, history, difference):
        assert "<table" in value._repr_html_()
    assert plot._repr_svg_().count("<rect") == 28
    lake.close()
