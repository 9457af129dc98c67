"""Uses an installed Lakeward in an environment that has nothing else: `smoke.py [EXTRA]`.

Runs without pytest and without the project's source. What an extra brings is used; using what
another one brings must name that one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import lakeward as lw
from lakeward.errors import MissingExtra

NOW = datetime(2026, 11, 16, tzinfo=UTC)


def first_table(lake: lw.Lake) -> None:
    """A table that is created and appended to, which the extras use."""
    lake.create(
        "sales.orders",
        {"id": "int64", "amount": "double", "ts": "timestamp"},
        partition_by=["day(ts)"],
        constraints={"positive": "amount >= 0"},
    )
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": n, "amount": 1.0 * n, "ts": NOW} for n in range(10)])
    check(lake.table("sales.orders").count() == 10)


def core(lake: lw.Lake) -> None:
    """The rest of what works without any extra."""
    orders = lake.table("sales.orders")
    with lake.transaction() as tx:
        tx.update("sales.orders", set={"amount": "amount + 1"}, where="id < 3")
        tx.merge("sales.orders", [{"id": 9, "amount": 0.5, "ts": NOW}], on="id")
        tx.delete("sales.orders", where="id = 5")
    with lake.sink("sales.orders", writer_id="smoke") as sink:
        sink.write([{"id": 10, "amount": 10.0, "ts": NOW}])
        sink.commit_epoch(1)
    check(sorted(orders.to_arrow()["id"].to_pylist()) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10])
    check(orders.to_arrow(where="id = 9")["amount"].to_pylist() == [0.5])
    check(orders.at(version=1).to_arrow().num_rows == 10)
    check([v.version for v in orders.history()] == [3, 2, 1, 0])
    python = [sys.executable, "-I", f"-Xpycache_prefix={sys.pycache_prefix}"]
    command = [*python, "-m", "lakeward", "--lake", "lake", "--json", "doctor"]
    check(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.startswith(b"{"))
    demo = [*python, "-m", "lakeward", "--json", "demo", "--embedded"]
    check(json.loads(subprocess.run(demo, stdout=subprocess.PIPE, check=True).stdout)["ok"])


def iceberg(lake: lw.Lake) -> None:
    """Tables of the other format."""
    lake.create("sales.totals", {"id": "int64"}, format="iceberg")
    with lake.transaction() as tx:
        tx.append("sales.totals", [{"id": 1}, {"id": 2}])
    with lake.transaction() as tx:
        tx.delete("sales.totals", where="id = 1")
    check(lake.table("sales.totals").to_arrow().to_pylist() == [{"id": 2}])


def datafusion(lake: lw.Lake) -> None:
    """delta-rs, beside a table of ours."""
    from lakeward.engines.datafusion import scan_delta

    table = lake.table("sales.orders")
    where = table.location.removeprefix("file://")
    check(scan_delta(where, 1, table.schema.arrow).read_all().num_rows == 10)


def postgres(lake: lw.Lake) -> None:
    """A store on a server, whose address is in the environment."""
    url = os.environ.get("LAKEWARD_SMOKE_POSTGRES", "postgresql://localhost/none")
    with lw.open(url, warehouse="on-postgres") as other:
        other.create("t", {"id": "int64"})
        with other.transaction() as tx:
            tx.append("t", [{"id": 1}])
        check(other.table("t").to_arrow().num_rows == 1)


def s3(lake: lw.Lake) -> None:
    """A warehouse on a server, whose address is in the environment."""
    bucket = os.environ.get("LAKEWARD_SMOKE_BUCKET", "none")
    with lw.open("on-s3", warehouse=f"s3://{bucket}/wh") as other:
        other.create("t", {"id": "int64"})
        with other.transaction() as tx:
            tx.append("t", [{"id": 1}])
        check(other.table("t").to_arrow().num_rows == 1)


def kafka(lake: lw.Lake) -> None:
    """The client of brokers loads."""
    from lakeward.integrations.kafka import KafkaSource

    KafkaSource("localhost:9", ["topic"])


def ibis(lake: lw.Lake) -> None:
    """An expression over a table of ours."""
    from lakeward.integrations.ibis import connect

    with connect(lake) as con:
        found = con.table("sales.orders").count().to_pyarrow().as_py()
    check(found == lake.table("sales.orders").count())


def hamilton(lake: lw.Lake) -> None:
    """The loader of a table at a version."""
    import pyarrow as pa

    from lakeward.integrations import hamilton

    table = lake.table("sales.orders").at()
    rows, source = hamilton.LakeLoader(table).load_data(pa.Table)
    check(source == {"table": "sales.orders", "version": table.version})
    check(rows.num_rows == table.count())


def prometheus(lake: lw.Lake) -> None:
    """The metrics of a lake as text."""
    from lakeward.integrations.prometheus import exposition

    check("lakeward_" in exposition(lake.metrics()))


def server(lake: lw.Lake) -> None:
    """The application, with its routes."""
    from lakeward.web.serving import check_installed

    check_installed()
    from lakeward.web.app import application

    check(callable(application(lake, "lake")))


def spark(lake: lw.Lake) -> None:
    """A session; a whole transaction in it where the environment asks for that."""
    from lakeward.spark import configure, session

    if os.environ.get("LAKEWARD_SMOKE_SPARK") != "run":
        from lakeward.engines.spark.extra import check_installed

        check_installed()
        check(callable(configure))
        return
    started = session(lake, **{"spark.ui.enabled": "false"})
    with lake.transaction(spark=started) as tx:
        tx.sql(
            "INSERT INTO sales.orders (id, amount, ts)"
            " SELECT id + 100, 1.0D, timestamp'2026-11-16' FROM range(5)"
        )
    check(lake.table("sales.orders").to_arrow().num_rows == 15)
    started.stop()


def openlineage(lake: lw.Lake) -> None:
    """Events that nobody receives."""
    from lakeward.integrations.openlineage import send_commits

    send_commits(lake, name=None)


def otel(lake: lw.Lake) -> None:
    """Spans that nobody receives."""
    from lakeward.integrations.opentelemetry import trace

    trace(lake)()


def sketches(lake: lw.Lake) -> None:
    """Distinct values."""
    check(lake.table("sales.orders").statistics(distinct=["id"]).columns)


USES: dict[str, Callable[[lw.Lake], None]] = {
    "datafusion": datafusion,
    "hamilton": hamilton,
    "ibis": ibis,
    "iceberg": iceberg,
    "kafka": kafka,
    "openlineage": openlineage,
    "otel": otel,
    "postgres": postgres,
    "prometheus": prometheus,
    "s3": s3,
    "server": server,
    "sketches": sketches,
    "spark": spark,
}
ALIKE = {"azure": "s3", "gcs": "s3"}
"""Extras that bring the same package as another one."""
BRINGS = {
    "airflow": {"datafusion", "otel", "server"},
    "ibis": {"datafusion"},
    "server": {"otel"},
}
"""Extras that bring others."""


def check(holds: object) -> None:
    """Like assert, also where Python drops those."""
    if not holds:
        message = "a check of the smoke test does not hold"
        raise AssertionError(message)


def main() -> None:
    """Use the core and the extra that is there; be told the names of the others."""
    extra = sys.argv[1] if len(sys.argv) > 1 else ""
    here = set(USES) if extra == "all" else {ALIKE.get(extra, extra)} | BRINGS.get(extra, set())
    with lw.open("lake") as lake:
        first_table(lake)
        if extra in ("", "all"):
            core(lake)
        for name, use in USES.items():
            if name in here:
                use(lake)
                continue
            try:
                use(lake)
            except MissingExtra as error:
                check(f"lakeward[{name}]" in str(error.hint))
            else:
                message = f"{name} works although its extra is not installed"
                raise AssertionError(message)
    print("smoke passed", extra or "alone", sys.version.split()[0], Path(lw.__file__).parent.name)


if __name__ == "__main__":
    main()
