"""The version at a moment, among very many versions."""

from __future__ import annotations

from datetime import UTC, datetime

import lakeward as lw
from benchmarks.logs import many_versions
from benchmarks.result import Quantity, Result, Settings, below
from benchmarks.rounds import interleave, timed
from benchmarks.scratch import fresh


def run(settings: Settings) -> Result:
    """Ask for moments all over the history, and check each answer."""
    count = settings.choose(100_000, 10_000)
    place = fresh(settings.scratch / "timestamp")
    with lw.open(place / "lake") as lake:
        moments = many_versions(lake, "t", count)
        table = lake.table("t")
        asked = iter(range(10**9))

        def once() -> None:
            version = next(asked) * 7919 % count
            moment = datetime.fromtimestamp(moments[version] / 1000 + 0.5, UTC)
            found = table.at(timestamp=moment).version
            if found != version:
                message = f"version {found} was found for the moment of version {version}"
                raise RuntimeError(message)

        series = interleave({"Lakeward": timed(once)}, rounds=settings.choose(500, 100), warm_up=20)
    return Result(
        "timestamp",
        f"version at a timestamp among {count:,} versions",
        series,
        [
            below(
                f"version at a timestamp among {count:,}, median",
                Quantity(series[0].median),
                Quantity(0.005),
                "5 ms",
            )
        ],
        (f"{series[0].rounds} rounds, another moment each.",),
    )
