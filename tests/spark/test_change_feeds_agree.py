"""Spark's change feed and Iceberg's changelog agree with `table.changes`, version by version."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.engines.spark.settings import iceberg_catalog
from lakeward.log.catalog import CATALOG
from tests.property.histories import STEPS, History, made
from tests.support.inside import context_of

pytestmark = pytest.mark.full
_KEPT: Final = tuple(step for step in STEPS if step != "alter")
"""Neither shows versions with other columns."""
_COUNT: Final = 12
_SEEDS: Final = ("agrees", "x", "z")
Changes = Counter[tuple[Any, ...]]


def history(lake: lw.Lake, kind: str, seed: str) -> lw.Table:
    chance = random.Random(f"{kind} {seed}")
    table = made(lake, seed, kind, chance)
    steps = History(lake, table, chance)
    for _ in range(_COUNT):
        steps.step(_KEPT)
    return table


def told(table: lw.Table) -> Changes:
    """The changes of all versions, each row as text: structs of Spark and Arrow differ."""
    rows = table.changes(since=1).read_all().to_pylist()
    return Counter((r["_commit_version"], r["_change_type"], *_values(r)) for r in rows)


def _values(row: Any) -> tuple[Any, ...]:
    nested = row["s"]
    return row["id"], row["v"], row["p"], None if nested is None else (nested["a"], nested["b"])


@pytest.mark.parametrize("kind", ["feed", "feed and vectors"])
def test_the_change_feed_of_delta_has_the_same_rows(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    kinds: set[str] = set()
    with lw.open(tmp_path / "lake") as lake:
        for seed in _SEEDS:
            table = history(lake, kind, seed)
            reader = spark.read.format("delta").option("readChangeFeed", "true")
            rows = reader.option("startingVersion", 1).load(table.location).collect()
            found = Counter((r["_commit_version"], r["_change_type"], *_values(r)) for r in rows)
            assert found == told(table), seed
            kinds |= {r["_change_type"] for r in rows}
    assert kinds == {"insert", "delete", "update_preimage", "update_postimage"}


def test_the_changelog_of_iceberg_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        store = context_of(lake).database.jdbc
        assert store is not None
        own = spark.newSession()
        for key, value in iceberg_catalog(CATALOG, store, lake.warehouse).items():
            own.conf.set(key, value)
        for seed in _SEEDS:
            table = history(lake, "iceberg", seed)
            own.sql(f"CALL {CATALOG}.system.create_changelog_view(table => 'default.{seed}',"
                    f" changelog_view => 'log_{seed}')")  # fmt: skip
            versions = {v.snapshot_id: v.version for v in reversed(table.history())}
            rows = own.sql(f"SELECT * FROM log_{seed}").collect()
            found = Counter(
                (versions[r["_commit_snapshot_id"]], r["_change_type"].lower(), *_values(r))
                for r in rows
            )
            assert found == told(table), seed
            assert {r["_change_type"] for r in rows} == {"INSERT", "DELETE"}
