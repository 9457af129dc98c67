"""Findings for people: one table of promises, one of times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.result import Quantity, Result, Series


def show(
    console: Console, machine: Mapping[str, Any], results: Sequence[Result], *, quick: bool
) -> None:
    """Print everything."""
    console.print()
    console.print(_machine_line(machine), style="dim", highlight=False)
    console.print(_promises(results))
    console.print(_times(results))
    if quick:
        console.print("Quick: small sizes and few rounds; the floors are for the full run.")
    for result in results:
        for note in result.notes:
            console.print(f"[dim]{result.name}: {note}[/dim]", highlight=False)


def quantity(source: Quantity) -> str:
    """A value as people write it."""
    if source.unit == "s":
        return seconds(source.value)
    number = f"{source.value:,.0f}" if source.value >= 100 else f"{source.value:.3g}"
    return f"{number} {source.unit}".strip()


def seconds(value: float) -> str:
    """A time in the unit that fits it."""
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.2f} ms"
    return f"{value:.2f} s"


def _promises(results: Sequence[Result]) -> Table:
    table = Table(title="Promises", title_justify="left")
    for heading in ("benchmark", "what", "ours", "peer", "theirs", "ratio", "floor", ""):
        right = heading in ("ours", "theirs", "ratio")
        table.add_column(heading, justify="right" if right else "left")
    for result in results:
        for claim in result.claims:
            table.add_row(
                result.name,
                claim.what,
                quantity(claim.ours),
                claim.peer or "",
                "" if claim.theirs is None else quantity(claim.theirs),
                "" if claim.ratio is None else f"{claim.ratio:.1f}×",
                claim.floor,
                "[green]✓[/green]" if claim.holds else "[red]✗[/red]",
            )
        table.add_section()
    return table


def _times(results: Sequence[Result]) -> Table:
    table = Table(title="Times", title_justify="left")
    for heading in ("benchmark", "who", "rounds", "median", "p99", "worst"):
        left = heading in ("benchmark", "who")
        table.add_column(heading, justify="left" if left else "right")
    for result in results:
        for series in result.series:
            table.add_row(result.name, *_cells(series))
        table.add_section()
    return table


def _cells(series: Series) -> tuple[str, ...]:
    return (
        series.who,
        str(series.rounds),
        seconds(series.median),
        seconds(series.p99),
        seconds(series.worst),
    )


def _machine_line(machine: Mapping[str, Any]) -> str:
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}, {machine['file_system']}; create + sync of 4 kB takes "
        f"{machine['create_and_sync_ms']} ms; load {machine['load_before']} before. "
        f"Python {machine['python']}, SQLite {machine['sqlite']}, pyarrow {machine['pyarrow']}, "
        f"deltalake {machine['deltalake']}, DuckDB {machine['duckdb']}."
    )
