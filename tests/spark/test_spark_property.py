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


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.full)])
def campaign(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> Generator[Campaign]:
    store = str(tmp_path / "lake")
    if request.param == "postgres":
        store = request.getfixturevalue("postgres_url")
    target = LakeTarget(store, tmp_path / "lake")
    rival = Rival(target)
    with target.open() as lake:
        yield Campaign(Player(lake, on_spark, rival, spark=spark), rival, SEED)
    rival.end()


def test_every_combination_begins_or_is_refused_on_spark(campaign: Campaign) -> None:
    found = {c: campaign.begins(c) for c in cases() if c.kind == "delta"}
    assert found == {c: can_begin(c, spark=True) for c in found}


@sizes("rounds", short=1, full=5)
@pytest.mark.parametrize(
    "racing", [False, pytest.param(True, marks=pytest.mark.full)], ids=["between", "racing"]
)
def test_what_spark_commits_is_there_exactly_once(
    campaign: Campaign, rounds: int, racing: bool
) -> None:
    campaign.longest = 2 if rounds == 1 else 4
    asked = set()
    for number in range(rounds):
        campaign.seed = SEED + number
        chance = random.Random(campaign.seed)
        wanted = short_cases(chance, spark=True)
        if rounds > 1:
            wanted = cases()
            chance.shuffle(wanted)
        campaign.run(wanted, racing=racing)
        asked |= {case for case in wanted if can_begin(case, spark=True)}

    print(f"\nseed {SEED}: {dict(campaign.counts)}")
    assert campaign.begun == asked
    assert campaign.counts["committed"]
    check_lake(campaign.lake, campaign.tables)
