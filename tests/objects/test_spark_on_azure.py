"""Spark reads and writes the tables of a lake on Azurite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lakeward as lw
from tests.support.azurite import ACCOUNT
from tests.support.spark_on_store import check_both_formats

if TYPE_CHECKING:
    from tests.support.azurite import Azurite


@pytest.mark.azure
@pytest.mark.full
@pytest.mark.filterwarnings("ignore:unclosed <socket")
@pytest.mark.filterwarnings("ignore:Exception ignored in. <socket")
@pytest.mark.timeout(300)
def test_spark_appends_merges_and_reads_both_formats(azurite: Azurite, tmp_path: Path) -> None:
    place = f"abfss://{azurite.container()}@{ACCOUNT}.dfs.core.windows.net/wh"
    with lw.open(tmp_path / "lake", warehouse=place, storage_options=azurite.options()) as lake:
        check_both_formats(lake, tmp_path, **{"spark.hadoop.fs.azure.io.retry.max.retries": "2"})
