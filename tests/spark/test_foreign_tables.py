"""Tables with the features that only Spark writes: conditions find and delete the right rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from tests.foreign.corpus_spark import RECIPES
from tests.foreign.examine import Examination, Figures
from tests.support.sizes import sizes


@sizes("conditions", short=10, full=100)
@pytest.mark.parametrize("feature", list(RECIPES))
@pytest.mark.always("[vectors-", "iceberg-evolved")
def test_a_table_of_spark(
    spark: SparkSession, tmp_path: Path, feature: str, conditions: int
) -> None:
    seed = list(RECIPES).index(feature) + conditions
    subject = RECIPES[feature](spark, tmp_path / "made", random.Random(seed))
    with lw.open(tmp_path / "lake") as lake:
        deletes = 1.0 if conditions > 10 else 0.25
        examination = Examination(lake, Figures(), deletes=deletes, commits=1)
        examination.of(subject, seed, conditions)
