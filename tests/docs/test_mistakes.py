"""What mistakes print is kept as a page, so that a change of a message is seen in review."""

from __future__ import annotations

import re

from tests.docs import mistakes_page
from tests.docs.mistakes import SECTIONS


def test_the_page_shows_what_mistakes_print() -> None:
    found = mistakes_page.render()

    assert mistakes_page.PAGE.read_text() == found, (
        "messages changed: run `.venv/bin/python -m tests.docs.mistakes_page` and read what it did"
    )
    assert sum(map(len, SECTIONS.values())) >= 100
    # What a user sees has no addresses of objects, no modules of the inside, no tracebacks.
    assert not re.search(r"0x[0-9a-f]{6}|object at|lakeward\.(?!errors|LastWriterWins)\w+\.", found)
    for untrue in ("Traceback", "A table keeps its name", "cannot run SQL"):
        assert untrue not in found
