"""Pages of streams and alerts, and the heat map of partitions."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest

from lakeward.model import steps
from lakeward.web.charts import CELL, heat
from tests.support.inside import context_of
from tests.support.service import Service, made_lake, orders
from tests.web.test_runs import BUNDLE, keep


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service of a lake with streams, and with something wrong of each kind."""
    directory: Path = tmp_path_factory.mktemp("attention") / "lake"
    with made_lake(directory) as lake:
        with lake.sink("sales.clicks", writer_id="web-1", schema={"id": "int64"}) as sink:
            sink.write(pa.table({"id": [1]}))
            sink.commit_epoch(0)
        consumer = lake.consumer("counter", tables=["sales.orders"])
        for change in consumer:
            with consumer.transaction(change) as tx:
                tx.append("gold.secret_plans", pa.table({"id": [1]}))
        many = {"measure": "rows", "min": 1000}
        lake.set_policy("sales.ord*", {"expectations": {"many": many}})
        lake.table("sales.orders").append(orders(9))
        lake.table("sales.orders").quality()
        lake.set_service_level(
            "much",
            {"objective": "throughput", "table": "sales.orders", "min": 1e12, "window": "7 days"},
        )
        keep(lake, "nightly-2", "failed", {**BUNDLE, "run": "nightly-2"})
        with Service(lake, anonymous=None) as service:
            yield service


def test_streams_are_shown_with_their_lag(troubled: Service) -> None:
    every = troubled.as_("reader").get("/streams?format=json").json()["streams"]

    (sink,) = every["sinks"]
    assert (sink["table"], sink["writer"], sink["epoch"]) == ("sales.clicks", "web-1", 0)
    assert sink["seconds"] >= 0
    (consumer,) = every["consumers"]
    assert consumer["name"] == "counter"
    assert consumer["lag"] >= 1
    page = troubled.as_("reader").get("/streams", headers={"accept": "text/html"}).text
    assert "web-1" in page
    assert "counter" in page
    some = troubled.as_("reader", "gold.*").get("/streams?format=json").json()["streams"]
    assert some == {"sinks": [], "consumers": []}


def test_alerts_are_what_the_lake_knows_to_be_wrong(
    troubled: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.web import alerts

    def die(step: str) -> None:
        if step == "ratify.committed":
            raise KeyboardInterrupt

    monkeypatch.setattr(alerts, "_STUCK_SECONDS", 0.0)
    steps.observe(die)
    try:
        with pytest.raises(KeyboardInterrupt):
            troubled.lake.table("sales.clicks").append(pa.table({"id": [2]}))
    finally:
        steps.observe(None)

    shown = troubled.as_("reader").get("/alerts?format=json").json()["alerts"]

    assert {(one["kind"], one["subject"]) for one in shown} == {
        ("service level", "sales.orders"),
        ("publication", "sales.clicks"),
        ("expectation", "sales.orders"),
        ("pipeline", "nightly"),
    }
    assert troubled.as_("reader", "gold.*").get("/alerts?format=json").json()["alerts"] == []
    text = troubled.as_("reader").get("/alerts", headers={"accept": "text/html"}).text
    assert "many is not met in version" in text
    # The overview loads them when it is shown.
    overview = troubled.as_("reader").get("/", headers={"accept": "text/html"}).text
    assert 'hx-get="/alerts"' in overview
    for place in {one["place"] for one in shown}:
        assert troubled.as_("reader").get(place).status_code == 200, place


def test_a_lake_without_trouble_has_no_alerts(shared: Service) -> None:
    assert shared.as_("reader").get("/alerts?format=json").json()["alerts"] == []


def test_partitions_are_shown_as_heat_maps(shared: Service) -> None:
    client, path = shared.as_("reader"), "/tables/sales.orders/health"

    maps = client.get(f"{path}?format=json").json()["maps"]

    assert set(maps) == {"size", "files", "deleted rows"}
    assert [(c["name"], c["value"]) for c in maps["files"]["cells"]] == [
        ("region=eu", 1),
        ("region=us", 1),
    ]
    text = client.get(path, headers={"accept": "text/html"}).text
    assert text.count('<svg class="heat"') == 3
    assert "<title>region=us: 1</title>" in text


def test_a_heat_map_has_a_row_for_each_beginning_of_names() -> None:
    found = heat([("d=2/r=eu", 10), ("d=1/r=us", 1), ("d=1/r=eu", 0), ("d=2/r=us", 5)])

    assert [(c.x // CELL, c.y // CELL, c.shade) for c in found.cells] == [
        (0, 0, 0),
        (1, 0, 1),
        (0, 1, 5),
        (1, 1, 2),
    ]
    assert (found.width, found.height) == (2 * CELL, 2 * CELL)
    many = heat([(f"day={n:03}", 1) for n in range(45)])
    assert max(c.y for c in many.cells) == 2 * CELL
    assert heat([]).cells == ()


def test_a_policy_that_is_set_or_removed_shows_at_once(own: Service) -> None:
    client = own.as_("reader")

    def tables() -> list[tuple[str, list[str]]]:
        found = client.get("/quality?format=json").json()["tables"]
        return [(one["table"], [m["name"] for m in one["measurements"]]) for one in found]

    assert tables() == []
    few = {"expectations": {"few": {"measure": "rows", "max": 1}}}
    own.lake.set_policy("sales.*", few)
    assert tables() == [("sales.orders", []), ("sales.totals", [])]
    own.lake.table("sales.orders").append(orders(9))
    own.lake.table("sales.orders").quality()
    assert tables() == [("sales.orders", ["few"]), ("sales.totals", [])]
    assert own.lake.latest_quality()[0].failed[0].value == 6
    (alert,) = client.get("/alerts?format=json").json()["alerts"]
    assert (alert["kind"], alert["subject"]) == ("expectation", "sales.orders")

    own.lake.drop("sales.totals")
    own.lake.set_policy("gold.*", few)
    assert tables() == [("gold.secret_plans", []), ("sales.orders", ["few"])]
    own.lake.set_policy("sales.*", None)
    own.lake.set_policy("gold.*", None)
    assert tables() == []
    assert client.get("/alerts?format=json").json()["alerts"] == []


def test_tables_are_not_read_one_by_one_for_alerts_and_quality(own: Service) -> None:
    client = own.as_("reader")
    own.lake.set_policy("sales.orders", {"expectations": {"some": {"measure": "rows", "min": 1}}})
    for path in ("/alerts", "/quality"):
        client.get(path)
    database = context_of(own.lake).database
    counts = {}

    for more in (0, 20):
        for number in range(more):
            own.lake.create(f"gold.t{number}", "id int64")
        for path in ("/alerts", "/quality"):
            client.get(path)
            with mock.patch.object(database, "read", wraps=database.read) as read:
                client.get(path)
            counts[path, more] = read.call_count

    assert counts["/alerts", 20] == counts["/alerts", 0]
    assert counts["/quality", 20] == counts["/quality", 0]
