"""`python -m benchmarks`: run, print, and write the findings as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from benchmarks.machine import describe
from benchmarks.registry import BENCHMARKS
from benchmarks.render import show
from benchmarks.result import Result, Settings
from benchmarks.scratch import scratch

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run what was asked for; 1 when `--check` was given and a promise was missed."""
    asked = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 160)
    results: list[Result] = []
    with scratch(asked.scratch, keep=asked.keep) as place:
        machine = describe(place)
        for name in asked.only or BENCHMARKS:
            print(f"{name} …", file=sys.stderr, flush=True)
            results.append(BENCHMARKS[name](Settings(place, quick=asked.quick)))
    show(console, machine, results, quick=asked.quick)
    found = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "quick": asked.quick,
        "machine": machine,
        "results": [r.to_json() for r in results],
    }
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    missed = [r.name for r in results if not r.holds]
    if missed:
        console.print(f"Missed: {', '.join(missed)}.", style="red")
    return 1 if missed and asked.check else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Lakeward beside its peers."
    )
    parser.add_argument("--only", action="append", choices=BENCHMARKS, help="just this one; repeat")
    parser.add_argument("--quick", action="store_true", help="few rounds, to see that all runs")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a floor is missed")
    parser.add_argument("--keep", action="store_true", help="leave the scratch files")
    parser.add_argument(
        "--json", type=Path, default=HERE / "results" / "latest.json", help="where findings go"
    )
    parser.add_argument(
        "--scratch", type=Path, default=HERE / ".scratch", help="a directory on a real disk"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
