"""Differences of rows as text: counts, then some rows with old and new values in colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from lakeward.lake.records import RowDiff


def rows(found: Any) -> Iterator[RenderableType]:
    """Show the compared rows; nothing if rows were not compared."""
    if found is None:
        return
    diff: RowDiff = found
    yield words.heading(f"{diff.left} → {diff.right}")
    if diff.is_empty:
        yield Text("No row differs.")
    counts = (("inserted", diff.inserted), ("deleted", diff.deleted), ("changed", diff.changed))
    yield words.line(", ".join(f"{words.number(n)} {what}" for what, n in counts))
    for side, names in (("left", diff.only_left), ("right", diff.only_right)):
        if names:
            yield words.line(f"only the {side} one has {', '.join(names)}", "dim")
    if diff.columns:
        changed = (f"{name} {words.number(n)}" for name, n in diff.columns.items())
        yield words.line(f"changed values: {', '.join(changed)}")
    for row in diff.deleted_sample:
        yield words.line(f"- {_values(row)}", "red")
    for row in diff.inserted_sample:
        yield words.line(f"+ {_values(row)}", "green")
    for pair in diff.changed_sample:
        yield _pair(pair.old, pair.new)
    shown = len(diff.deleted_sample) + len(diff.inserted_sample) + len(diff.changed_sample)
    left = diff.inserted + diff.deleted + diff.changed - shown
    if left > 0:
        text = f"… and {words.counted(left, 'row')} more; --sample shows more."
        yield Text(text, style="dim")


def _values(row: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in row.items())


def _pair(old: Mapping[str, Any], new: Mapping[str, Any]) -> Text:
    line = Text("~ ", style=words.WARNING)
    for name, value in new.items():
        # NaN differs from itself, and is written alike.
        if old[name] == value or repr(old[name]) == repr(value):
            line.append(words.printable(f"{name}={value} "), style="default")
            continue
        line.append(words.printable(f"{name}="), style="default")
        line.append(words.printable(str(old[name])), style="red")
        line.append("→", style="dim")
        line.append(words.printable(f"{value} "), style="green")
    return line
