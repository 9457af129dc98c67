"""A real Prometheus scrapes a service under load, and fires the alerts of `deploy`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import pytest

import lakeward as lw
from lakeward.log.statement import Statement
from tests.cli.serving import serving
from tests.docs.pages import ROOT
from tests.support.inside import context_of
from tests.support.many_tables import multiply
from tests.support.prometheus import Prometheus
from tests.support.servers import Unobtainable
from tests.support.service import ARROW, orders, stream

RULES = ROOT / "deploy" / "prometheus" / "lakeward.rules.yml"
STUCK = ("LakewardPublicationStuck", "sales.stuck")
MISSED = ("LakewardServiceLevelMissed", "quick commits")
LIMIT_SECONDS = 4
_AGE = Statement(
    """UPDATE lakeward_commit SET timestamp_ms = timestamp_ms - :ms
    WHERE operation = 'WRITE' AND table_id =
        (SELECT table_id FROM lakeward_head WHERE name = 'stuck')"""
)


def until(true: Callable[[], bool], what: str, seconds: float = 60) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def become(prometheus: Prometheus, wanted: dict[tuple[str, ...], str]) -> None:
    """Wait until the active alerts are these."""
    with suppress(AssertionError):
        until(lambda: prometheus.alerts() == wanted, "")
    assert prometheus.alerts() == wanted


@contextmanager
def load(address: str, secret: str) -> Generator[None]:
    """Two writers that append through the service, until the end."""
    over, failed = threading.Event(), []

    def write() -> None:
        headers = {"authorization": f"Bearer {secret}", "content-type": ARROW}
        with httpx.Client(base_url=address, headers=headers, timeout=60) as client:
            while not over.wait(0.05):
                path = "/api/v1/tables/sales.orders/rows"
                response = client.post(path, content=stream(orders(1, 2, 3)))
                if response.status_code != 200:
                    failed.append(response.text)
                    return

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert failed == []


@pytest.fixture
def lake(tmp_path: Path) -> Generator[lw.Lake]:
    """A lake of 10,000 tables."""
    with lw.open(tmp_path / "lake") as made:
        made.create("sales.many", "id int64")
        made.table("sales.many").append([{"id": 1}])
        multiply(made, "sales.many", 9_996)
        for name in ("orders", "stuck", "promised"):
            made.create(f"sales.{name}", "id int64, region string, amount float64")
        promise = {"objective": "commit_latency", "table": "sales.promised"}
        made.set_service_level("quick commits", {**promise, "max": f"{LIMIT_SECONDS} seconds"})
        made.table("sales.promised").append(orders(1))
        yield made


@pytest.mark.full
def test_prometheus_fires_for_a_stuck_publication_and_a_missed_service_level(
    lake: lw.Lake, tmp_path: Path
) -> None:
    secret = lake.create_token("all", role="writer").secret
    with serving(tmp_path / "lake") as (_, address):
        try:
            prometheus = Prometheus(address.removeprefix("http://"), secret, RULES)
        except Unobtainable as error:
            pytest.skip(str(error))
        with prometheus, load(address, secret):
            _stays_silent(prometheus)
            _fires_for_a_stuck_publication(prometheus, lake)
            _fires_for_a_missed_level(prometheus, lake)
            assert prometheus.past_alerts() == {STUCK, MISSED}


def _stays_silent(prometheus: Prometheus) -> None:
    """While all is well no alert is active, and 10,000 tables have 101 series of each metric."""
    query = "sum(increase(lakeward_commits_total[10s]))"
    until(lambda: (prometheus.value(query) or 0) > 10, "no load arrives")
    time.sleep(6)  # longer than any of the rules waits that could fire here
    assert prometheus.alerts() == {}
    assert (prometheus.value("avg_over_time(up[1m])") or 0) > 0.5
    assert prometheus.value("lakeward_tables") == 10_000
    assert prometheus.value("count(lakeward_table_rows)") == 101
    assert prometheus.value('max(count by (__name__) ({job="lakeward", le=""}))') == 101
    assert (prometheus.value("scrape_samples_scraped") or 0) < 1_500
    assert prometheus.value('lakeward_service_level_attainment{level="quick commits"}') == 1


def _fires_for_a_stuck_publication(prometheus: Prometheus, lake: lw.Lake) -> None:
    stuck = lake.table("sales.stuck")
    log = Path(stuck.location) / "_delta_log"
    away = log.rename(log.with_name("away"))
    log.touch()  # neither the service nor this process can write a commit there
    stuck.append(orders(1))

    query = 'lakeward_publication_lag_seconds{table="sales.stuck"}'
    until(lambda: (prometheus.value(query) or 0) > 1, "the lag is not seen")
    assert prometheus.alerts() == {}
    with context_of(lake).database.write() as session:
        session.run(_AGE, {"ms": 300_000})  # as if five minutes had passed
    become(prometheus, {STUCK: "pending"})
    become(prometheus, {STUCK: "firing"})

    log.unlink()
    away.rename(log)
    lake.publish()
    become(prometheus, {})


def _fires_for_a_missed_level(prometheus: Prometheus, lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.append("sales.promised", orders(1))
        time.sleep(LIMIT_SECONDS + 0.5)
        assert prometheus.alerts() == {}
    become(prometheus, {MISSED: "pending"})
    become(prometheus, {MISSED: "firing"})
