"""Pages that list what the code has, held against the code."""

from __future__ import annotations

import inspect
import re

import pytest

import lakeward as lw
from lakeward import errors
from lakeward.cli.exits import EXITS
from lakeward.errors import LakewardError
from lakeward.formats.delta.generated import generated_field
from lakeward.formats.delta.schema import schema_string
from lakeward.formats.policy import native_names
from lakeward.log import tables
from lakeward.model.expressions.functions import NAMES
from lakeward.model.schema import Schema
from lakeward.model.transform import SUFFIXES, Rules, Transform, parse_term
from lakeward.model.types import PRIMITIVES, Field, Primitive
from tests.docs import api_page
from tests.docs.pages import ROOT, Page, pages
from tests.support import pythons

DOCS = ROOT / "docs"


def test_the_readme_names_the_pythons_of_the_classifiers() -> None:
    named = re.search(r"Python (3\.\d+), (3\.\d+) or (3\.\d+)", (ROOT / "README.md").read_text())
    assert named is not None
    assert list(named.groups()) == pythons.promised()


def test_the_error_tree_is_the_one_of_the_code() -> None:
    drawn = next(b.text for b in Page(DOCS / "errors.md").blocks if "LakewardError" in b.text)
    assert drawn.strip() in inspect.cleandoc(errors.__doc__ or "").replace("\n    ", "\n")
    parents: dict[str, str] = {}
    above: list[str] = []
    for line in drawn.splitlines():
        found = re.search(r"[A-Z]\w+", line)
        assert found is not None, line
        above[found.start() // 4 :] = [found[0]]
        parents[found[0]] = above[-2] if len(above) > 1 else "LakewardError"
    del parents["LakewardError"]
    assert parents == {kind.__name__: kind.__bases__[0].__name__ for kind in all_errors()}


def test_every_error_has_its_exit_code_and_says_whether_to_retry() -> None:
    rows = table_rows(Page(DOCS / "errors.md").text, "error", "exit code", "run again")
    listed = {name.strip("`"): (int(code), again == "yes") for name, code, again, *_ in rows}
    assert listed == {k.__name__: (k.exit_code, k.retryable) for k in all_errors()}


def test_exit_codes_are_those_of_the_program() -> None:
    rows = table_rows(Page(DOCS / "cli.md").text, "code", "meaning")
    assert {int(code) for code, *_ in rows} == set(EXITS)


def test_types_are_published_as_the_page_says() -> None:
    rows = table_rows(Page(DOCS / "tables.md").text, "type", "Arrow", "published in Delta as")
    listed = {row[0].strip("`"): (row[1].strip("`"), row[2].strip("`")) for row in rows}
    for name, arrow in PRIMITIVES.items():
        spelled = schema_string(Schema.of({"x": name}))
        assert listed[name] == (str(arrow), re.findall(r'"type":"(\w+)","nullable', spelled)[0])


def test_transforms_are_published_as_the_page_says() -> None:
    rows = table_rows(Page(DOCS / "partitioning.md").text, "transform", "of columns with")
    listed = {row[0].strip("`"): (row[2], row[3].strip("`").strip()) for row in rows[1:]}
    assert {parse_term(term).name for term in listed} == set(SUFFIXES) - {"identity", "void"}
    for text, (column, spelled) in listed.items():
        term = parse_term(text)
        kind = {"truncate(4, x)": "string", "truncate(10, x)": "int64"}.get(text, "timestamp")
        transform = Transform(term.name, term.width, Rules.SPARK)
        made = generated_field(
            2, f"x{SUFFIXES[term.name]}", transform, Field(1, "x", Primitive(kind)), guard=False
        )
        assert made.metadata["delta.generationExpression"] == spelled
        assert f"`{made.name}" in column


def test_policies_and_functions_are_all_listed() -> None:
    rows = table_rows(Page(DOCS / "tables.md").text, "policy", "property")
    assert {row[0].strip("`"): row[1].strip("`") for row in rows} == native_names("delta")
    (functions,) = [
        line for line in Page(DOCS / "reading.md").text.splitlines() if "| functions |" in line
    ]
    assert set(re.findall(r"`(\w+)`", functions)) == NAMES


def test_the_tables_of_the_log_are_all_listed() -> None:
    rows = table_rows(Page(ROOT / "ARCHITECTURE.md").text, "table", "key", "holds")
    assert {row[0].strip("`") for row in rows} == {table.name for table in tables.ALL}


def test_the_python_api_page_is_what_the_code_says() -> None:
    assert api_page.PAGE.read_text() == api_page.render(), (
        "the public surface changed: run `.venv/bin/python -m tests.docs.api_page`"
    )


@pytest.mark.parametrize("page", pages(), ids=str)
def test_links_lead_somewhere(page: Page) -> None:
    for link in page.links:
        assert "://" not in link, f"{link}: pages of this project link to each other only"
        path, _, anchor = link.partition("#")
        target = page.path if not path else (page.path.parent / path).resolve()
        assert target.exists(), link
        if anchor:
            assert anchor in Page(target).anchors, link


@pytest.mark.parametrize("page", pages(), ids=str)
def test_pages_of_the_site_link_to_nothing_outside_it(page: Page) -> None:
    if page.path.is_relative_to(DOCS):
        for link in page.links:
            target = (page.path.parent / link.partition("#")[0]).resolve()
            assert target.is_relative_to(DOCS) or not link.partition("#")[0], link


def test_every_page_of_the_site_is_in_its_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    missing = [p for p in sorted(DOCS.rglob("*.md")) if str(p.relative_to(DOCS)) not in menu]
    assert not missing


def all_errors() -> list[type[LakewardError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, LakewardError) and kind is not LakewardError
    ]


def table_rows(text: str, *headings: str) -> list[list[str]]:
    """The rows of the Markdown table whose first headings are these."""
    head = "| " + " | ".join(headings)
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(head))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def test_the_page_on_transactions_names_every_operation() -> None:
    text = Page(DOCS / "transactions.md").text
    table = text.partition("| operation | what it does |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`tx\.(\w+)", table))
    others = {"commit", "rollback", "outcome", "name", "set_properties", "lock_all"}
    public = {
        name
        for name, member in inspect.getmembers(lw.Transaction, inspect.isfunction)
        if not name.startswith("_") and name not in lw.Transaction._internal
    }
    assert named == public - others
