"""Tables with one feature each, as others write them: conditions find and delete the right rows."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import lakeward as lw
from tests.behaviour.iceberg.theirs import their_catalog
from tests.foreign import corpus_delta, corpus_iceberg
from tests.foreign.examine import Examination, Figures
from tests.support.sizes import sizes

pytestmark = pytest.mark.slow

conditions = sizes("conditions", short=8, full=60)


@conditions
@pytest.mark.parametrize("feature", list(corpus_delta.RECIPES))
def test_a_delta_table_of_deltalake(tmp_path: Path, feature: str, conditions: int) -> None:
    seed = list(corpus_delta.RECIPES).index(feature) + conditions
    subject = corpus_delta.RECIPES[feature](tmp_path / "table", random.Random(seed))
    with lw.open(tmp_path / "lake") as lake:
        deletes = 1.0 if conditions > 10 else 0.25
        Examination(lake, Figures(), deletes=deletes).of(subject, seed, conditions)


@conditions
@pytest.mark.parametrize("feature", list(corpus_iceberg.RECIPES))
def test_an_iceberg_table_of_pyiceberg(tmp_path: Path, feature: str, conditions: int) -> None:
    seed = list(corpus_iceberg.RECIPES).index(feature) + conditions
    with lw.open(tmp_path / "lake") as lake, their_catalog(tmp_path / "theirs") as catalog:
        subject = corpus_iceberg.RECIPES[feature](catalog, "corpus.table", random.Random(seed))
        deletes = 1.0 if conditions > 10 else 0.25
        Examination(lake, Figures(), deletes=deletes).of(subject, seed, conditions)
