"""One writer that appends without pause: what grows with the number of commits, and what does not.

The first part times every commit and counts the bytes that the process writes. The second part
appends as many and is maintained now and then; the bytes of the published metadata, the data and
the store are drawn as a plot.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

import lakeward as lw
from benchmarks.result import Claim, Quantity, Result, Series, Settings, below
from benchmarks.scratch import fresh

_FORMATS = ("delta", "iceberg")
_SLOWEST_SECONDS = 0.05
_GROWTH = 1.3
_STOPS = 20
_NOW: dict[str, Any] = {"retention": "0s", "force": True}


def run(settings: Settings) -> Result:
    """Append to a table of each format, alone and maintained."""
    count = settings.choose(100_000, 2_000)
    place = fresh(settings.scratch / "steady")
    series: list[Series] = []
    claims: list[Claim] = []
    sizes: dict[str, list[int]] = {}
    for name in _FORMATS:
        with lw.open(place / name) as lake:
            seconds, written = _appends(lake.create("t", _rows(0).schema, format=name), count)
            series.append(Series(f"Lakeward: {name}", seconds))
            claims += _claims(name, seconds, written)
            _check(lake.table("t"), count)
        with lw.open(place / f"{name}-maintained") as lake:
            found = _maintained(lake, name, count, place / f"{name}-maintained")
            sizes |= {f"{name}: {what}": values for what, values in found.items()}
            claims.append(_bounded(name, found["published"]))
    plot = settings.scratch.parent / "results" / "steady.svg"
    plot.parent.mkdir(parents=True, exist_ok=True)
    plot.write_text(_svg(sizes, count))
    return Result(
        "steady",
        f"{count:,} appends of ten rows by one writer without pause",
        series,
        claims,
        (
            f"Sizes with maintenance {_STOPS} times on the way are drawn in {plot.name}.",
            *(f"{what} at the end: {values[-1]:,} bytes." for what, values in sizes.items()),
        ),
    )


def _rows(number: int) -> pa.Table:
    return pa.table({"id": range(number * 10, number * 10 + 10), "v": [0.5] * 10})


def _appends(table: lw.Table, count: int) -> tuple[list[float], list[int]]:
    """Append so often; the seconds of each commit and the bytes written for it."""
    seconds, written, before = [], [], _written()
    for number in range(count):
        rows = _rows(number)
        started = perf_counter()
        table.append(rows)
        seconds.append(perf_counter() - started)
        after = _written()
        written.append(after - before)
        before = after
    return seconds, written


def _written() -> int:
    """Bytes that this process has written so far."""
    facts = Path("/proc/self/io").read_text().split()
    return int(facts[facts.index("wchar:") + 1])


def _claims(name: str, seconds: Sequence[float], written: Sequence[int]) -> list[Claim]:
    part = max(100, len(seconds) // 20)
    first, last = (statistics.median(s) for s in (seconds[part // 2 : part], seconds[-part:]))
    growth = last / first
    early = sum(written[part : 5 * part]) / (4 * part)
    late = sum(written[-4 * part :]) / (4 * part)
    return [
        below(
            f"{name}: slowest commit", Quantity(max(seconds)), Quantity(_SLOWEST_SECONDS), "50 ms"
        ),
        Claim(
            f"{name}: median at the end beside the start",
            Quantity(growth, "times"),
            f"≤ {_GROWTH:g}×",
            growth <= _GROWTH,
        ),
        Claim(
            f"{name}: bytes written by a commit, late beside early ({late:,.0f})",
            Quantity(late / early, "times"),
            f"≤ {_GROWTH:g}×",
            late / early <= _GROWTH,
        ),
    ]


def _check(table: lw.Table, count: int) -> None:
    """Old versions are read through the lake, whatever is published of them."""
    for version in (1, count // 2, count):
        if table.at(version=version).count() != version * 10:
            message = f"version {version} has other rows"
            raise RuntimeError(message)


def _maintained(lake: lw.Lake, name: str, count: int, place: Path) -> dict[str, list[int]]:
    table = lake.create("t", _rows(0).schema, format=name)
    metadata = Path(table.location) / ("_delta_log" if name == "delta" else "metadata")
    found: dict[str, list[int]] = {"published": [], "table": [], "store": []}
    for stop in range(_STOPS):
        for number in range(stop * count // _STOPS, (stop + 1) * count // _STOPS):
            table.append(_rows(number))
        _maintain(table)
        found["published"].append(_bytes(metadata))
        found["table"].append(_bytes(Path(table.location)))
        found["store"].append(sum(p.stat().st_size for p in place.glob("lakeward.db*")))
    if table.count() != count * 10:
        message = "rows were lost"
        raise RuntimeError(message)
    return found


def _maintain(table: lw.Table) -> None:
    steps: list[Callable[[], object]] = [
        table.optimize,
        lambda: table.vacuum(**_NOW),
        table.checkpoint,
        lambda: table.expire(**_NOW),
    ]
    for step in steps:
        step()


def _bytes(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.rglob("*") if p.is_file())


def _bounded(name: str, sizes: Sequence[int]) -> Claim:
    half, end = max(sizes[: len(sizes) // 2]), max(sizes[len(sizes) // 2 :])
    return Claim(
        f"{name}: published bytes, second half beside the first",
        Quantity(end / half, "times"),
        "≤ 1.5×",
        end <= 1.5 * half,
    )


def _svg(sizes: dict[str, list[int]], count: int) -> str:
    """Draw megabytes over commits, a line for each series."""
    width, height, edge = 720, 360, 60
    top = max(max(values) for values in sizes.values()) or 1
    colours = ("#1b6ca8", "#5fa8d3", "#62b6cb", "#c1440e", "#e08e45", "#f4c095")
    lines = []
    for row, (what, values) in enumerate(sizes.items()):
        points = " ".join(
            f"{edge + (n + 1) * (width - 2 * edge) / len(values):.0f},"
            f"{height - edge - v * (height - 2 * edge) / top:.0f}"
            for n, v in enumerate(values)
        )
        colour = colours[row % len(colours)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        lines.append(f'<text x="{edge + 8}" y="{edge + 14 * row}" fill="{colour}">{what}</text>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        ' font-family="sans-serif" font-size="12">'
        f'<text x="{edge}" y="20">megabytes (up to {top / 1e6:.1f}) after maintenance,'
        f" over {count:,} commits</text>"
        f'<path d="M{edge} {edge}V{height - edge}H{width - edge}" fill="none" stroke="black"/>'
        f"{''.join(lines)}</svg>\n"
    )
