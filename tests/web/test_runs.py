"""Runs of pipelines: what the API and the dashboard show of them."""

from __future__ import annotations

import re
from typing import Any

import lakeward as lw
from lakeward.log import runs
from tests.support.service import Service

BUNDLE: dict[str, Any] = {
    "pipeline": "nightly",
    "run": "nightly-1",
    "started": "2026-11-17T06:00:00+00:00",
    "versions_in": {"sales.orders": 2},
    "versions_out": {"sales.totals": 1},
    "code": {"steps": {"sales.totals": {"file": "/home/etl/secret place/jobs.py", "line": 3}}},
    "inputs": [
        {"source": "in", "path": "/srv/landing/in/a.json", "size": 1},
        {"source": "in", "path": "s3://bucket/in/b.json", "size": 1},
    ],
    "error": {"message": "The file '/srv/landing/in/a.json' is broken, 1/2 read.", "facts": {}},
    "notices": [{"sample": ["/data/of/rows"]}],
    "seconds": 1.5,
}


def keep(lake: lw.Lake, run_id: str, state: str, bundle: dict[str, Any]) -> None:
    """Store a run as a pipeline does when it ends."""
    with lake._context.database.write() as session:
        runs.put(session, runs.Run(run_id, "nightly", state, 0, 1, bundle))


def test_a_run_is_answered_with_its_bundle_and_without_paths_of_the_server(own: Service) -> None:
    keep(own.lake, "nightly-1", "ratified", BUNDLE)

    found = own.as_("reader").get("/api/v1/runs/nightly-1")

    assert found.status_code == 200, found.text
    answer = found.json()
    assert answer["state"] == "ratified"
    for name in ("pipeline", "run", "started", "versions_in", "versions_out", "notices", "seconds"):
        assert answer[name] == BUNDLE[name], name
    assert answer["code"]["steps"]["sales.totals"] == {"file": "jobs.py", "line": 3}
    assert [one["path"] for one in answer["inputs"]] == ["a.json", "s3://bucket/in/b.json"]
    assert answer["error"]["message"] == "The file 'a.json' is broken, 1/2 read."
    assert own.as_("reader", tables="sales.*").get("/api/v1/runs/nightly-1").status_code == 403


def test_a_run_links_to_its_transaction_if_it_has_one(own: Service) -> None:
    client = own.as_("reader")
    made = own.lake.transactions(limit=1)[0].transaction_id
    keep(own.lake, made, "ratified", {**BUNDLE, "run": made})
    # It failed before it registered a transaction.
    keep(own.lake, "failed-at-once", "failed", {**BUNDLE, "run": "failed-at-once"})

    page = client.get("/jobs", headers={"accept": "text/html"}).text

    assert f'href="/transactions/{made}"' in page
    assert client.get(f"/transactions/{made}").status_code == 200
    assert "failed-at-on" in page
    assert 'href="/runs/failed-at-once"' in page
    assert "/transactions/failed-at-once" not in page


def test_the_page_of_a_run_has_its_steps_inputs_versions_and_error(own: Service) -> None:
    step = {"table": "sales.totals", "mode": "append", "rows": 1234, "seconds": 0.25}
    step |= {"dropped": {"positive": 3}, "warned": {}}
    read = {"source": "orders", "table": "sales.orders", "since": 0, "versions": [1, 2]}
    inputs = [*BUNDLE["inputs"], read]
    keep(own.lake, "late", "failed", {**BUNDLE, "steps": [step], "inputs": inputs, "attempts": 3})
    keep(own.lake, "bare", "failed", {"started": BUNDLE["started"]})
    client = own.as_("reader")

    page = client.get("/runs/late", headers={"accept": "text/html"})

    assert page.status_code == 200, page.text
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))
    assert "3 attempts" in text
    assert "is broken, 1/2 read." in text
    assert "/srv/landing" not in text
    assert "sales.totals append 1,234 3 0 0.250" in text
    assert "orders sales.orders 1, 2" in text
    assert "/tables/sales.totals/compare?to=1" in page.text
    assert client.get("/runs/bare", headers={"accept": "text/html"}).status_code == 200
    assert client.get("/runs/late?format=json").json()["run"]["attempts"] == 3
    assert client.get("/runs/none").status_code == 404
    assert own.as_("reader", tables="sales.*").get("/runs/late").status_code == 403
