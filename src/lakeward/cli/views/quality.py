"""The quality of tables, and service levels, as text: each with its value and its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.lake.records import Attainment, Measurement, Quality

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 20


def quality(found: Sequence[Quality]) -> Iterator[RenderableType]:
    """Show a grid of expectations for each table, and a verdict."""
    if not found:
        yield Text("No table has expectations.")
        return
    for one in found:
        yield words.heading(f"{one.table}, version {one.version}")
        yield words.grid(
            ["", "expectation", "wanted", "measured", "from", "history"],
            (
                (
                    _mark(m.passed),
                    words.printable(m.name),
                    words.printable(m.wanted),
                    words.printable(m.reason or "") if m.value is None else value(m.value),
                    m.origin,
                    plot([p.value for p in one.series[m.name]]),
                )
                for m in one.measurements
            ),
            right=("measured",),
        )
    yield _verdict([m for one in found for m in one.measurements])


def service_levels(found: Sequence[Attainment]) -> Iterator[RenderableType]:
    """Show one line per service level."""
    if not found:
        yield Text("No service level is declared.")
        return
    yield words.grid(
        ["", "service level", "of", "wanted", "attained", "budget left"],
        (
            (
                _mark(one.kept),
                words.printable(one.name),
                words.printable(one.subject),
                words.printable(one.wanted),
                "nothing happened" if one.attained is None else f"{one.attained:.3%}",
                "" if one.budget_left is None else f"{one.budget_left:.0%}",
            )
            for one in found
        ),
        right=("attained", "budget left"),
    )


def value(number: float) -> str:
    """Return a number in readable form."""
    return f"{number:,.0f}" if number == int(number) else f"{number:.4g}"


def plot(values: Sequence[float | None]) -> str:
    """Return values as bars, oldest first; a dot where nothing was measured."""
    shown = list(values)[-_WIDTH:]
    known = [v for v in shown if v is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(_BARS) - 1)
    return "".join(
        "·" if v is None else _BARS[0 if not step else round((v - low) / step)] for v in shown
    )


def _mark(passed: bool | None) -> Text:
    if passed is None:
        return Text("?", style=words.WARNING)
    return Text("✓", style="green") if passed else Text("✗", style="bold red")


def _verdict(measured: Sequence[Measurement]) -> Text:
    failed = sum(m.passed is False for m in measured)
    unknown = sum(m.passed is None for m in measured)
    said = f", {unknown} not known" if unknown else ""
    if failed:
        return Text.assemble((f"✗ {failed} of {len(measured)} not met", "bold red"), said)
    return Text.assemble(("✓ all expectations are met", "bold green"), said)
