"""Random transactions on Spark, with another process in between, against a model.

What is random and what is checked is written in `tests/property/README.md`.
"""

from __future__ import annotations

import os
import random
from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.property.campaign import Campaign, can_begin, cases, short_cases
from tests.property.on_spark import on_spark
from tests.property.play import Player
from tests.property.rival import Rival
from tests.support.invariants import check_lake
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

SEED = int(os.environ.get("LAKEWARD_SEED", "14"))


@pytest.fixture
def campaign(spark: SparkSession, tmp_path: Path) -> Generator[Campaign]:
    target = LakeTarget(str(tmp_path / "lake"), tmp_path / "lake")
    rival = Rival(target)
    with target.open() as lake:
        yield Campaign(Player(lake, on_spark, rival, spark=spark), rival, SEED)
    rival.end()


def test_every_combination_begins_or_is_refused_on_spark(campaign: Campaign) -> None:
    found = {c: campaign.begins(c) for c in cases() if c.kind == "delta"}
    assert found == {c: can_begin(c, spark=True) for c in found}


@sizes("rounds", short=1, full=5)
def test_what_spark_commits_is_there_exactly_once(campaign: Campaign, rounds: int) -> None:
    campaign.longest = 2 if rounds == 1 else 4
    for number in range(rounds):
        campaign.seed = SEED + number
        chance = random.Random(campaign.seed)
        wanted = short_cases(chance, spark=True)
        if rounds > 1:
            wanted = cases()
            chance.shuffle(wanted)
        campaign.run(wanted)

    print(f"\nseed {SEED}: {dict(campaign.counts)}")
    check_lake(campaign.lake, campaign.tables)
