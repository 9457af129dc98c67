"""Random transactions of the embedded engine, with another process in between, against a model."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Generator

import pytest

import lakeward as lw
from tests.property.campaign import Campaign, can_begin, cases, short_cases
from tests.property.play import Player, embedded
from tests.property.rival import Rival
from tests.support.invariants import check_lake
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow
SEED = int(os.environ.get("LAKEWARD_SEED", "14"))


@pytest.fixture
def campaign(lake_target: LakeTarget, make_lake: Callable[..., lw.Lake]) -> Generator[Campaign]:
    lake = make_lake()
    rival = Rival(lake_target)
    yield Campaign(Player(lake, embedded, rival), rival, SEED)
    rival.end()


def test_every_combination_begins_or_is_refused(campaign: Campaign) -> None:
    for case in cases():
        assert campaign.begins(case) == can_begin(case, spark=False), case


@sizes("rounds", short=1, full=20)
@pytest.mark.parametrize("racing", [False, True], ids=["between", "racing"])
def test_what_is_acknowledged_is_there_exactly_once(
    campaign: Campaign, rounds: int, racing: bool
) -> None:
    asked = set()
    for number in range(rounds):
        campaign.seed = SEED + number
        chance = random.Random(campaign.seed)
        wanted = short_cases(chance, spark=False)
        if racing:
            # Once with every strategy.
            wanted = list({case.strategy: case for case in wanted}.values())
        if rounds > 1:
            wanted = cases()
            chance.shuffle(wanted)
        campaign.run(wanted, racing=racing)
        asked |= {case for case in wanted if can_begin(case, spark=False)}

    print(f"\nseed {SEED}: {dict(campaign.counts)}")
    assert campaign.begun == asked
    assert campaign.counts["committed"]
    check_lake(campaign.lake, campaign.tables)
