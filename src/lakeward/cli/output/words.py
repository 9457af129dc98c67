"""Values as text for people: sizes, counts, times, cells.

All text from outside (names, rows, paths) goes through `printable`: control characters are escaped,
so that data cannot move the cursor or colour the terminal.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, tzinfo
from typing import Any, Final, Literal

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from lakeward.model.records import to_json

WARNING: Final = "magenta"
"""A colour that is legible on light and dark backgrounds; yellow is not."""
_LONGEST: Final = 200
_UNBOUNDED: Final = 100_000
_zone: ContextVar[tzinfo | None] = ContextVar("zone", default=None)
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")


class Moment(str):
    """A time as text, by which a grid knows where it may be broken."""

    __slots__ = ()


class Grid(Table):
    """A table of rows; if the terminal is too narrow, columns are closer and times are broken."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table for the width of the terminal."""
        if self._is_too_wide(console, options):
            self.padding = 0
        if self._is_too_wide(console, options):
            for cell in (cell for column in self.columns for cell in column.cells):
                if isinstance(cell, _MomentText):
                    cell.let_break()
        yield from super().__rich_console__(console, options)

    def _is_too_wide(self, console: Console, options: ConsoleOptions) -> bool:
        unbounded = options.update(max_width=_UNBOUNDED)
        return self.__rich_measure__(console, unbounded).maximum > options.max_width


class _MomentText(Text):
    def let_break(self) -> None:
        """Make words of date, time and zone, between which a line may end."""
        date, _, time = self.plain.partition("T")
        if time:
            self.plain = f"{date} {time[:12]} {time[12:]}".replace(" Z", "Z")


def printable(text: str, *, lines: bool = False) -> str:
    """Return text with control characters and invalid Unicode escaped.

    Args:
        text: Text from any source.
        lines: Whether to keep line breaks.
    """
    text = text.encode("utf-8", "backslashreplace").decode()
    if text.isprintable():
        return text
    return "".join(_spelled(c) if _moves(c, lines=lines) else c for c in text)


def cell(value: Any) -> Text:
    """Return a value of a row as a cell of a grid."""
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
    """Return a number of bytes in readable units."""
    if count is None:
        return "?"
    amount, unit = float(count), 0
    while amount >= 1000 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1000, unit + 1
    return f"{count} bytes" if unit == 0 else f"{amount:.1f} {_UNITS[unit]}"


def number(count: int | None) -> str:
    """Return a count with separators of thousands."""
    return "?" if count is None else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(when: datetime | None) -> str:
    """Return a time in the user's zone, in the form that `--timestamp` accepts."""
    if when is None:
        return "–"
    local = when.astimezone(_zone.get())
    return Moment(local.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


@contextmanager
def in_zone(zone: tzinfo | None) -> Generator[None]:
    """Show times in a zone during the block; None for the user's zone."""
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
    """Return a table of rows.

    Args:
        columns: Headings.
        rows: Cells.
        right: Headings of columns of numbers.
    """
    table = Grid(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in columns:
        justify: Literal["left", "right"] = "right" if name in right else "left"
        table.add_column(Text(printable(name)), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*map(_in_grid, row))
    return table


def _in_grid(value: RenderableType) -> RenderableType:
    if isinstance(value, Moment):
        return _MomentText(value)
    return Text(printable(value)) if isinstance(value, str) else value


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Return a table of names and values, one pair per line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        shown = Text(printable(value, lines=True)) if isinstance(value, str) else value
        table.add_row(Text(printable(name)), shown)
    return table


def versions(found: Mapping[str, int]) -> Iterator[RenderableType]:
    """Yield a grid of tables with their versions, if there are any."""
    if found:
        lines = ((name, str(version)) for name, version in found.items())
        yield grid(["table", "version"], lines, right=("version",))


def line(text: str, style: str = "") -> Text:
    """Return a line of text that may contain text from outside, made safe by `printable`."""
    return Text(printable(text), style=style)


def heading(text: str) -> Text:
    """Return the title of a section."""
    return Text(printable(text), style="bold")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _moves(character: str, *, lines: bool) -> bool:
    if character == "\n":
        return not lines
    # Control characters, and the marks that change the direction of text.
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
