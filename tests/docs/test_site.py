"""The site is built as `make docs` builds it, and needs no network to be viewed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Page

DOCS = ROOT / "docs"
LOADS = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=\"([^\"]+)\"[^>]*>")
FRONT = [Page(ROOT / "README.md"), Page(DOCS / "index.md")]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", target],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def test_the_site_builds_strictly_and_every_page_is_in_its_search(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md")}
    assert {str(p).replace("README.html", "index.html") for p in pages} <= found | {"index.html"}
    # Where the site is opened from a disk, the search has its index from a script.
    assert (site / "search" / "search_index.js").read_text().startswith("var __index")


def test_a_page_of_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        for target in LOADS.findall(page.read_text()):
            if page.name != "404.html":  # which may be shown for any path
                assert (page.parent / target.partition("?")[0]).resolve().exists(), (page, target)


@pytest.mark.parametrize("front", FRONT, ids=str)
def test_every_page_is_linked_from_the_front(front: Page) -> None:
    linked = {(front.path.parent / link.partition("#")[0]).resolve() for link in front.links}
    pages = {*DOCS.glob("*.md"), DOCS / "adr" / "README.md"} - {DOCS / "index.md"}
    assert not sorted(str(page.relative_to(ROOT)) for page in pages - linked)


@pytest.mark.parametrize(("target", "does"), [("docs", "build"), ("docs-serve", "serve")])
def test_make_builds_and_shows_the_site_strictly(target: str, does: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}: setup .*\n\t.*mkdocs {does} --strict", makefile, re.MULTILINE)
