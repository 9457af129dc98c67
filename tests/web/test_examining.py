"""The health of tables with very many files, which is examined in the background."""

from __future__ import annotations

import threading
import time
from typing import Any
from unittest import mock

import httpx
import pytest

import lakeward as lw
from lakeward.integrations.remote import service as requests
from lakeward.model.records import to_json
from lakeward.web import examining
from tests.support.service import Service, orders

BROWSER = {"accept": "text/html"}
PAGE = "/tables/sales.orders/health"
API = "/api/v1/tables/sales.orders/health"


def test_a_table_of_very_many_files_is_examined_in_the_background(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "MANY_FILES", 1)
    monkeypatch.setattr(examining, "_REST", 0)
    client, may_end = own.as_("admin"), threading.Event()
    examine = examining._examined

    def slowly(table: object) -> examining.Examined:
        assert may_end.wait(30)
        return examine(table)  # type: ignore[arg-type]

    with mock.patch.object(examining, "_examined", slowly):
        first = client.get(PAGE, headers=BROWSER)
        assert first.status_code == 200
        assert "being examined" in first.text
        assert "every 3s" in first.text
        assert client.get("/health?format=json").json()["pending"] == ["sales.orders"]
        may_end.set()
        found = _once_known(client)
        assert found["health"]["version"] == found["table"]["version"] == 2
        assert found["is_newest"] is True
        assert found["plan"]["units"] == len(
            own.lake.table("sales.orders").optimize(dry_run=True).plan.units
        )
        may_end.clear()
        own.lake.table("sales.orders").append(orders(9))
        older = client.get(PAGE, headers=BROWSER).text
        assert "Of version 2. Version 3 is not examined yet" in older
        may_end.set()
        assert _once_known(client, 3)["is_newest"] is True
        every = client.get("/health?format=json").json()
        assert every["pending"] == []
        assert "sales.orders" in {one["table"] for one in every["health"]}


def test_an_examination_that_fails_is_begun_again(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "MANY_FILES", 1)
    client = own.as_("reader")
    with mock.patch.object(examining, "_examined", side_effect=OSError):
        assert client.get(f"{PAGE}?format=json").json()["health"] is None

    assert _once_known(client)["health"]["version"] == 2


def test_the_api_answers_202_until_a_large_table_is_examined(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examining, "MANY_FILES", 1)
    monkeypatch.setattr(requests, "_PAUSE_SECONDS", 0.02)
    client, may_end = own.as_("reader"), threading.Event()
    examine = examining._examined

    def slowly(table: object) -> examining.Examined:
        assert may_end.wait(30)
        return examine(table)  # type: ignore[arg-type]

    with mock.patch.object(examining, "_examined", slowly):
        first = client.get(API)
        assert (first.status_code, first.headers["retry-after"]) == (202, "1")
        assert first.json() == {"table": "sales.orders", "health": None}
        token = own.lake.create_token(role="reader").secret
        threading.Timer(0.1, may_end.set).start()
        found = lw.connect(own.url, token=token).table("sales.orders").health()
    assert (found.version, found.score) == (2, own.lake.table("sales.orders").health().score)
    assert client.get(API).json() == to_json(own.lake.table("sales.orders").health())


def test_the_api_examines_a_small_table_at_once(own: Service) -> None:
    assert own.as_("reader").get(API).json()["version"] == 2


def _once_known(client: httpx.Client, version: int = 2) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found: dict[str, Any] = client.get(f"{PAGE}?format=json").json()
        if found["health"] is not None and found["health"]["version"] == version:
            return found
        time.sleep(0.02)
    raise AssertionError
