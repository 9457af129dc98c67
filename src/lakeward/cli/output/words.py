"""How values look to a person: sizes, counts, moments, cells.

Whatever comes from outside (names, rows, paths) goes through `printable`: control characters are
spelled out, so that data cannot move the cursor or colour the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, tzinfo
from typing import Any, Final, Literal

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from lakeward.model.records import to_json

WARNING: Final = "magenta"
"""A colour that is read on light and dark backgrounds; yellow is not."""
_LONGEST: Final = 200
_zone: ContextVar[tzinfo | None] = ContextVar("zone", default=None)
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")


def printable(text: str, *, lines: bool = False) -> str:
    """Text with control characters, and what is no Unicode, spelled out.

    Args:
        text: From anywhere.
        lines: Keep line breaks.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    if text.isprintable():
        return text
    return "".join(_spelled(c) if _moves(c, lines=lines) else c for c in text)


def cell(value: Any) -> Text:
    """A value of a row."""
    import orjson

    if value is None:
        return Text("null", style="dim")
    if isinstance(value, bool):
        return Text("true" if value else "false")
    if isinstance(value, bytes):
        return Text(_short(value.hex()))
    if isinstance(value, Mapping | list | tuple):
        return Text(_short(printable(orjson.dumps(to_json(value)).decode())))
    if isinstance(value, datetime):
        return Text(value.isoformat(sep=" "))
    return Text(_short(printable(str(value))))


def size(count: int | None) -> str:
    """Bytes in units that people read."""
    if count is None:
        return "?"
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def number(count: int | None) -> str:
    """A count with its thousands apart."""
    return "?" if count is None else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(when: datetime | None) -> str:
    """A moment in the user's zone, as `--timestamp` takes it."""
    if when is None:
        return "–"
    local = when.astimezone(_zone.get())
    return local.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@contextmanager
def in_zone(zone: tzinfo | None) -> Generator[None]:
    """Show moments in a zone; None for the user's own."""
    before = _zone.set(zone)
    try:
        yield
    finally:
        _zone.reset(before)


def grid(
    columns: Sequence[str],
    rows: Iterable[Sequence[RenderableType]],
    *,
    right: Collection[str] = (),
) -> Table:
    """A table of rows.

    Args:
        columns: Headings.
        rows: Cells.
        right: Headings of columns of numbers.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(Text(printable(name)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(c)) if isinstance(c, str) else c for c in row))
    return table


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values, one pair to a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        shown = Text(printable(value, lines=True)) if isinstance(value, str) else value
        table.add_row(Text(printable(name)), shown)
    return table


def versions(found: Mapping[str, int]) -> Iterator[RenderableType]:
    """A grid of tables with their versions; nothing where there are none."""
    if found:
        lines = ((name, str(version)) for name, version in found.items())
        yield grid(["table", "version"], lines, right=("version",))


def line(text: str, style: str = "") -> Text:
    """A line of text that may hold names, paths and other text from outside."""
    return Text(printable(text), style=style)


def heading(text: str) -> Text:
    """The title of a part."""
    return Text(printable(text), style="bold")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _moves(character: str, *, lines: bool) -> bool:
    if character == "\n":
        return not lines
    # Controls, and the marks that turn the direction of text around.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
