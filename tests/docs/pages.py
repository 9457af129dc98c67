"""The documentation as tests see it: pages, their fenced blocks, headings and links.

A block may have a title behind its language, which says what it is::

    ```python title="examples/ten_lines.py"      a file of the project; it is run like the others
    ```python title="shop.py"                    a file that the reader saves under this name
    ```text title="prints"                       what the block before it prints

`tests/docs/pasting.py` runs them.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
EXAMPLES: Final = ROOT / "examples"
TOP: Final = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
)
_FENCE: Final = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]+)?(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_HEADING: Final = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_LINK: Final = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    page: Path
    line: int
    language: str
    title: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Page:
    """A Markdown file."""

    path: Path

    def __str__(self) -> str:
        return str(self.path.relative_to(ROOT))

    @cached_property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text()

    @cached_property
    def blocks(self) -> list[Block]:
        """Its fenced blocks, in order."""
        return [
            Block(
                self.path,
                self.text.count("\n", 0, found.start()) + 1,
                found["language"] or "",
                found["title"] or "",
                textwrap.dedent(found["text"]),
            )
            for found in _FENCE.finditer(self.text)
        ]

    @cached_property
    def prose(self) -> str:
        """Everything but fenced blocks."""
        return _FENCE.sub("", self.text)

    @property
    def spans(self) -> list[str]:
        """What stands in backticks in the prose."""
        return _SPAN.findall(self.prose)

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return _LINK.findall(self.prose)

    @property
    def anchors(self) -> set[str]:
        """The headings, as links name them."""
        return {slug(heading) for heading in _HEADING.findall(self.prose)}


def pages() -> list[Page]:
    """Every page there is."""
    found = [ROOT / name for name in TOP] + sorted((ROOT / "docs").rglob("*.md"))
    return [Page(path) for path in found]


def blocks(language: str) -> list[Block]:
    """Every block of a language, of all pages."""
    return [block for page in pages() for block in page.blocks if block.language == language]


def slug(heading: str) -> str:
    """A heading as the part of a link behind `#`."""
    plain = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return plain.replace(" ", "-")
