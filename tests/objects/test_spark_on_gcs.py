"""Spark reads and writes the tables of a lake on Google's object store, by Google's connector."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakeward as lw
from tests.support.spark_on_store import check_both_formats

if TYPE_CHECKING:
    from tests.support.gcs import Gcs


@pytest.mark.gcs
@pytest.mark.full
@pytest.mark.filterwarnings("ignore:unclosed <socket")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")
@pytest.mark.timeout(300)
def test_spark_appends_merges_and_reads_both_formats(gcs: Gcs, tmp_path: Path) -> None:
    place = f"gs://{gcs.bucket()}/wh"
    with lw.open(tmp_path / "lake", warehouse=place, storage_options=gcs.unsigned()) as lake:
        check_both_formats(lake, tmp_path)
