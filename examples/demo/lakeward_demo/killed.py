"""A process that runs the shop's pipeline and is killed at a named step.

Run as `python -m lakeward_demo.killed LAKE LANDING STEP TIMES`: it dies when it reaches the
step for the so-manieth time.
"""

from __future__ import annotations

import sys

from lakeward.lake.lake import Lake
from lakeward.spark import session
from lakeward_demo.dying import die_at
from lakeward_demo.shop_pipeline import pipeline


def main(target: str, landing: str, step: str, times: int) -> None:
    """Run, and die on the way."""
    lake = Lake(target, create=False)
    spark = session(lake)
    die_at(step, times)
    pipeline.run(lake, spark, landing=landing)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
