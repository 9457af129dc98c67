"""The demo's pipeline file, unchanged, on a cluster, with PostgreSQL and S3."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

import lakeward as lw
from lakeward.storage.attach import attach
from lakeward_demo import expected, shop_pipeline
from lakeward_demo.batches import Shop
from tests.support.cluster import Cluster
from tests.support.postgres import Postgres
from tests.support.s3 import S3Server
from tests.support.sparks import CONF, JAVA_OPTIONS

SCALE = 0.02
ROOT = Path(__file__).parents[2]


@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_the_same_file_runs_on_a_cluster_with_postgres_and_s3(
    tmp_path: Path, postgres_on_tcp: Postgres, s3_server: S3Server
) -> None:
    shop = Shop(tmp_path / "landing", SCALE)
    bucket = s3_server.bucket()
    options = s3_server.options()
    landing, warehouse = f"s3://{bucket}/landing", f"s3://{bucket}/warehouse"
    store = attach(landing, options)
    # As whoever runs a cluster sets it for all jobs.
    (tmp_path / "conf").mkdir()
    lines = [f"{key} {value}" for key, value in CONF.items()]
    lines.append(f"spark.executor.extraJavaOptions {JAVA_OPTIONS}")
    (tmp_path / "conf" / "spark-defaults.conf").write_text("\n".join(lines))

    with postgres_on_tcp.database() as name, Cluster(tmp_path) as cluster:
        url = postgres_on_tcp.url(name)

        def lakeward(*arguments: str) -> dict[str, Any]:
            place = ("--lake", url, "--warehouse", warehouse, "--json")
            done = subprocess.run(
                [sys.executable, "-m", "lakeward", *arguments, *place],
                env={
                    **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
                    **options,
                    "LAKEWARD_CACHE": str(ROOT / ".jars"),
                    "SPARK_CONF_DIR": str(tmp_path / "conf"),
                },
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, (done.stdout[-2000:], done.stderr[-4000:])
            answer: dict[str, Any] = orjson.loads(done.stdout)
            return answer

        def run() -> dict[str, Any]:
            how = ("--landing", landing, "--master", cluster.master)
            return lakeward("run", shop_pipeline.__file__, *how)

        lakeward("init")
        for file in shop.deliver(0):
            path = str(file.relative_to(shop.landing))
            store.put(path, file.read_bytes())
        answer = run()
        assert answer["committed"]
        assert set(answer["versions_out"].values()) == {1}
        assert run() == {"pipeline": "shop", "committed": False, "notices": []}

        with lw.open(url, warehouse=warehouse, storage_options=options) as lake:
            assert lake.table("silver.orders").location.startswith(warehouse)
            bronze = lake.table("bronze.orders").to_arrow(columns=["order_id"])
            assert bronze.num_rows == expected.landed(shop, 1)
            for table, columns, rows in (
                ("silver.orders", expected.ORDER_COLUMNS, expected.orders(shop, 1)),
                ("gold.daily_sales", expected.SALES_COLUMNS, expected.sales(shop, 1)),
            ):
                found = lake.table(table).to_arrow(columns=list(columns))
                got = list(zip(*found.to_pydict().values(), strict=True))
                assert expected.digest(got) == expected.digest(rows), table
