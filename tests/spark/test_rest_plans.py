"""Spark reads tables by scans that the service plans."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeward as lw
from lakeward.lake import rest_scans
from lakeward.lake.rest_scans import planned
from tests.support.service import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.full
def test_spark_reads_the_files_that_the_service_plans(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = spark.newSession()
    plans: list[dict[str, Any]] = []

    def noted(*given: Any) -> dict[str, Any]:
        plans.append(planned(*given))
        return plans[-1]

    monkeypatch.setattr(rest_scans, "planned", noted)
    with lw.open(tmp_path / "lake") as lake, Service(lake, anonymous=None, rate=1e6) as service:
        table = lake.create(
            "shop.t",
            "id int64, day date, part string, x float",
            format="iceberg",
            partition_by=["part", "month(day)"],
        )
        for n in range(4):
            day = date(2026, 1 + n, 1)
            table.append([{"id": n, "day": day, "part": f"p{n % 2}", "x": n + 0.9}])
        settings = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "rest",
            ".uri": f"{service.url}/iceberg",
            ".token": lake.create_token("spark").secret,
            ".cache-enabled": "false",
            ".scan-planning-mode": "server",
        }
        for name, value in settings.items():
            session.conf.set(f"spark.sql.catalog.planned{name}", value)

        def ids(where: str) -> list[int]:
            found = session.sql(f"SELECT id FROM planned.shop.t WHERE {where} ORDER BY id")
            return [row[0] for row in found.collect()]

        assert ids("true") == [0, 1, 2, 3]
        assert ids("part = 'p1' AND day > DATE '2026-01-15'") == [1, 3]
        assert ids("x = CAST(2.9 AS FLOAT)") == [2]
        assert ids("id IN (0, 3) OR part IS NULL") == [0, 3]
        assert ids("part <> 'p0' AND day < DATE '2026-03-01'") == [1]
        (lost,) = table.files(where="id = 3")
        (Path(table.location.removeprefix("file://")) / lost.path).unlink()
        assert ids("id = 2") == [2]
        first = table.at(version=2).snapshot_id
        found = session.sql(f"SELECT count(*) FROM planned.shop.t VERSION AS OF {first}")
        assert found.collect()[0][0] == 2
    assert len(plans) >= 7
    assert min(len(plan["file-scan-tasks"]) for plan in plans) == 1
