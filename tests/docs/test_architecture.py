"""Names in prose rot: every path, module and test that the documents name must exist."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from functools import cache

import pytest

from tests.docs.pages import ROOT, Page, pages

CHECKED = [p for p in pages() if p.path.name not in ("README.md", "CHANGELOG.md")]
_TOP = frozenset({"src", "tests", "docs", "examples", "benchmarks", "scripts", "requirements"})
_MODULE = re.compile(r"lakeward(\.[a-z_0-9]+)+")
_NO_MODULES = re.compile(
    r"lakeward\.(bloom|db(-wal|-shm)?|id|nestedIds|retention|retry\.\w+|sales\.\w+|snapshots|zorder)"
)
_TEST = re.compile(r"test_[a-z0-9_]+")


@pytest.mark.parametrize("page", CHECKED, ids=str)
def test_paths_that_are_named_exist(page: Page) -> None:
    named = [span for span in page.spans if is_path(span)]
    assert [span for span in named if not (ROOT / span.partition("::")[0]).exists()] == []


@pytest.mark.parametrize("page", CHECKED, ids=str)
def test_modules_that_are_named_exist(page: Page) -> None:
    named = [
        span for span in page.spans if _MODULE.fullmatch(span) and not _NO_MODULES.fullmatch(span)
    ]
    assert [span for span in named if not is_module(span)] == []


@pytest.mark.parametrize("page", CHECKED, ids=str)
def test_tests_that_are_named_exist(page: Page) -> None:
    named = [span.rpartition("::")[2] for span in page.spans]
    named = [span for span in named if _TEST.fullmatch(span)]
    assert [span for span in named if span not in all_tests()] == []


def test_every_package_is_mentioned() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = [p.parent.name for p in (ROOT / "src/lakeward").glob("*/__init__.py")]
    assert [name for name in packages if f"`{name}`" not in text] == []


def test_every_layer_is_mentioned_and_the_order_is_the_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (layers,) = [c["layers"] for c in contracts["contracts"] if c["id"] == "layers"]
    contract = [name.strip(" ()") for layer in layers for name in layer.split("|")]
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    told = [n for line in rows for n in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert told[: len(contract)] == contract


def test_the_write_and_read_paths_name_every_module_of_theirs() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    modules = [
        ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
        for layer in ("write", "read")
        for path in (ROOT / "src/lakeward" / layer).rglob("*.py")
        if path.stem not in ("__init__", "context")
    ]
    assert [name for name in modules if f"`{name}`" not in text] == []


def test_every_benchmark_is_described() -> None:
    registry = (ROOT / "benchmarks/registry.py").read_text()
    names = re.findall(r'^    "([a-z0-9-]+)": \w+\.run,$', registry, re.MULTILINE)
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", (ROOT / "benchmarks/README.md").read_text(), re.M)
    assert names != []
    assert sorted(rows) == sorted(names)


def is_path(span: str) -> bool:
    """Whether a span names a file or directory of this project."""
    if re.search(r"[\s*<>{}…$]", span):
        return False
    return (span.partition("/")[0] in _TOP and "/" in span) or span in (
        "pyproject.toml",
        "Makefile",
    )


def is_module(span: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        if importlib.util.find_spec(span) is not None:
            return True
    except ModuleNotFoundError:
        pass
    parent, _, name = span.rpartition(".")
    return hasattr(importlib.import_module(parent), name)


@cache
def all_tests() -> frozenset[str]:
    found = re.compile(r"^ *def (test_\w+)", re.MULTILINE)
    texts = (path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    names = {name for text in texts for name in found.findall(text)}
    return frozenset(names | {path.stem for path in (ROOT / "tests").rglob("test_*.py")})
