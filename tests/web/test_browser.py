"""A real browser walks every page of the lake that the demo makes, light and dark, wide and narrow.

`LAKEWARD_SCREENSHOTS=1` writes the images of `docs/images` anew.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lakeward as lw
from tests.support.browser import walk
from tests.support.servers import Unobtainable
from tests.support.service import Service, listed
from tests.web.test_runs import BUNDLE, keep

IMAGES = Path(__file__).parents[2] / "docs" / "images"
TABS = ("", "/compare", "/schema", "/policy", "/rows", "/layout", "/health", "/lineage", "/quality")
SHOWN = {"/": "dashboard", "/lineage": "lineage", "/tables/{table}/layout": "layout"}
UNSEEN = {"/events", "/static/{name}", "/login", "/metrics"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_page_is_right_in_a_browser(tmp_path: Path) -> None:
    shots = IMAGES if os.environ.get("LAKEWARD_SCREENSHOTS") else None
    demo = [
        sys.executable,
        "-m",
        "lakeward",
        "demo",
        "--embedded",
        "--into",
        str(tmp_path / "lake"),
    ]
    subprocess.run(demo, check=True, capture_output=True)
    with (
        lw.open(tmp_path / "lake", actor="anna") as lake,
        Service(lake, anonymous=None, rate=1e6) as service,
    ):
        lake.create("gold.by_country", "country string, orders int64", format="iceberg")
        lake.create("gold.markets", "country string")
        with lake.transaction(message="orders by country") as tx:
            tx.sql(
                "INSERT INTO gold.by_country"
                " SELECT country, count(*) AS orders FROM shop.orders GROUP BY country"
            )
        with lake.transaction(message="markets with orders") as tx:
            tx.sql("INSERT INTO gold.markets SELECT country FROM gold.by_country WHERE orders > 1")
        parts = lake.create("gold.by_day", "day string, n int64", partition_by=["day"])
        parts.append([{"day": f"2026-11-{n:02}", "n": m} for n in range(1, 29) for m in range(n)])
        with lake.sink("gold.clicks", writer_id="web-1", schema={"id": "int64"}) as sink:
            sink.write([{"id": 1}])
            sink.commit_epoch(0)
        for change in lake.consumer("counter"):
            print(change.position)
        table = max(lake.tables(), key=lambda t: t.version).name
        newest = lake.transactions(limit=1)[0].transaction_id
        keep(lake, newest, "failed", {**BUNDLE, "run": newest})
        values = {"{table}": table, "{transaction_id}": newest, "{run}": newest}
        pages: list[tuple[str, str | None]] = []
        for method, path, need in listed(service):
            is_page = method == "GET" and not path.startswith(("/api", "/iceberg"))
            if is_page and need is not None and need.role is not None and path not in UNSEEN:
                filled = path
                for name, value in values.items():
                    filled = filled.replace(name, value)
                pages.append((filled, SHOWN.get(path)))
        pages.append(("/tables/gold.by_day/layout", None))
        pages.append(("/tables/gold.by_day/health", "partitions"))
        token = lake.create_token("anna", role="admin").secret
        try:
            found = walk(service.url, token, pages, shots)
        except Unobtainable as error:
            pytest.skip(str(error))

    assert found.pop("keyboard")["search"] == "search"
    assert len(found) == 2 * len(pages)
    assert {f"/tables/{table}{tab}" for tab in TABS} <= {path for path, _ in pages}
    wrong = {
        path: said
        for path, said in found.items()
        if said["status"] != 200 or said["axe"] or said["console"] or said["wide"]
    }
    print({path: said["seconds"] for path, said in found.items()})
    assert wrong == {}
