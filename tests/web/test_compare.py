"""The comparison of versions that differ in many files: totals at once, the rest part by part."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.read import files_between
from lakeward.web.pages import table as pages
from tests.support.service import Service, orders

BROWSER = {"accept": "text/html"}
_VERSIONS = "from=0&to=6"


@pytest.fixture
def many(own: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service in which a few files are many."""
    for number in range(10, 14):
        own.lake.table("sales.orders").append(orders(number, region=f"r{number}"))
    monkeypatch.setattr(files_between, "FEW", 1)
    monkeypatch.setattr(pages, "_FILES", 2)
    monkeypatch.setattr(pages, "_FILES_OF_PAGE", 2)
    monkeypatch.setattr(pages, "_CHANGED", 3)
    return own


def test_the_page_shows_totals_and_the_first_files_and_loads_partitions_later(
    many: Service,
) -> None:
    client = many.as_("reader")
    page = client.get(f"/tables/sales.orders/compare?{_VERSIONS}", headers=BROWSER).text

    assert "6 added" in page
    assert "4 more files were added" in page
    assert "The partitions of 6 files are being counted" in page
    later = "/tables/sales.orders/compare/counts?from=0&amp;to=6"
    assert f'hx-get="{later}" hx-trigger="load" hx-select="#counts"' in page
    counted = client.get(later.replace("&amp;", "&"), headers=BROWSER).text
    assert 'id="counts"' in counted
    assert "+9</span> inserted" in counted
    assert "3 of 6 with the most changed files" in counted


def test_a_page_of_few_files_shows_all_at_once(own: Service) -> None:
    page = own.as_("reader").get("/tables/sales.orders/compare", headers=BROWSER).text

    assert "+2</span> inserted" in page
    assert "region=us" in page
    assert "more files" not in page
    assert "being counted" not in page


def test_all_files_are_listed_page_by_page(many: Service) -> None:
    client = many.as_("reader")
    place = f"/tables/sales.orders/compare/files?format=json&kind=added&{_VERSIONS}"
    api = f"/api/v1/tables/sales.orders/diff/files?limit=4&{_VERSIONS}"
    wanted = [f.path for f in many.lake.table("sales.orders").diff(0, 6).files_added]

    assert _listed(client, place) == _listed(client, api) == wanted
    text = client.get(place.replace("format=json&", ""), headers=BROWSER).text
    assert "6 files added" in text
    assert "More files" in text
    gone = client.get(f"{api}&kind=removed").json()
    assert (gone["count"], gone["files"], gone["next"]) == (0, [], None)
    assert client.get(f"{api}&kind=all").status_code == 400
    assert client.get(f"{api}&cursor=x").status_code == 400


def test_the_api_lists_as_many_files_as_asked_and_counts_all(many: Service) -> None:
    client = many.as_("reader")
    every = client.get(f"/api/v1/tables/sales.orders/diff?{_VERSIONS}").json()
    some = client.get(f"/api/v1/tables/sales.orders/diff?files=1&{_VERSIONS}").json()

    assert len(every["files_added"]) == every["added"]["files"] == 6
    assert some["files_added"] == every["files_added"][:1]
    assert some["partition_count"] == len(every["partitions"]) == 6
    same = every.keys() - {"files_added", "files_removed"}
    assert {name: some[name] for name in same} == {name: every[name] for name in same}


def _listed(client: Any, place: str) -> list[str]:
    found: list[str] = []
    cursor = ""
    while True:
        answer = client.get(place + cursor).json()
        found += [one["path"] for one in answer["files"]]
        if answer["next"] is None:
            return found
        cursor = f"&cursor={answer['next']}"
