"""The first page: what changed today, and the tables that the browser showed last."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pyarrow as pa

from lakeward.web.access import COOKIE
from lakeward.web.pages.viewed import COOKIE as VIEWED
from tests.support.service import Service, orders

BROWSER = {"accept": "text/html"}


def _text(client: httpx.Client, path: str = "/") -> str:
    page = client.get(path, headers=BROWSER)
    assert page.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def _viewed(client: httpx.Client) -> list[str]:
    found: list[str] = client.get("/?format=json").json()["viewed"]
    return found


def test_what_changed_today_has_tables_operations_rows_and_actors(own: Service) -> None:
    own.lake.acting_as("ann").table("sales.orders").delete(where="id = 1")
    today = own.as_("reader").get("/?format=json").json()["today"]

    assert today[0]["actor"] == "ann"
    (deleted,) = today[0]["tables"]
    assert (deleted["table"], deleted["version"], deleted["operation"]) == (
        "sales.orders",
        3,
        "DELETE",
    )
    assert deleted["changed"] == {"inserted": 0, "updated": 0, "deleted": 1}
    (first,) = [one for one in today if one["message"] == "first"]
    assert first["members"] == 2
    assert {one["table"] for one in first["tables"]} == {"sales.orders", "sales.totals"}
    shown = _text(own.as_("reader"))
    assert "sales.orders &nbsp; 3 DELETE \u22121 ann" in shown
    assert "All transactions" in shown


def test_what_changed_today_has_only_tables_that_are_open_to_the_caller(own: Service) -> None:
    with own.lake.transaction(message="both") as tx:
        tx.append("sales.totals", pa.table({"region": ["us"], "amount": [1.0]}))
        tx.append("gold.secret_plans", pa.table({"id": [1]}))
    for number in range(15):
        own.lake.table("sales.orders").append(orders(100 + number))

    (both, made) = own.as_("reader", "gold.*").get("/?format=json").json()["today"]

    assert (both["message"], both["members"]) == ("both", 1)
    assert [one["table"] for one in both["tables"]] == ["gold.secret_plans"]
    assert [one["operation"] for one in made["tables"]] == ["CREATE TABLE"]


def test_a_table_that_was_dropped_has_no_link(own: Service) -> None:
    own.lake.drop("gold.secret_plans")

    page = own.as_("reader").get("/", headers=BROWSER).text
    today, _, newest = page.partition("What changed today")[2].partition("Newest transactions")

    for shown in (today, newest):
        assert "gold.secret_plans" in shown
        assert "/tables/gold.secret_plans" not in shown
        assert "/tables/sales.orders" in shown
    (made,) = [
        one
        for one in own.as_("reader").get("/transactions?format=json").json()["transactions"]
        if "gold.secret_plans" in one["versions"]
    ]
    assert made["dropped"] == ["gold.secret_plans"]
    one = own.as_("reader").get(f"/transactions/{made['transaction_id']}", headers=BROWSER).text
    assert "/tables/gold.secret_plans" not in one
    (seen,) = own.as_("reader", "gold.*").get("/transactions?format=json").json()["transactions"]
    assert seen["dropped"] == ["gold.secret_plans"]


def test_tables_that_the_browser_showed_are_listed_newest_first(own: Service) -> None:
    client = own.as_("reader")
    assert "Recently viewed" not in _text(client)

    _text(client, "/tables/sales.orders")
    _text(client, "/tables/sales.totals/layout")
    client.get("/tables/gold.secret_plans?format=json")
    _text(client, "/tables/sales.totals/schema")

    assert _viewed(client) == ["sales.totals", "sales.orders"]
    assert "Recently viewed sales.totals sales.orders" in _text(client)
    again = client.get("/tables/sales.totals", headers=BROWSER)
    assert "set-cookie" not in again.headers
    first = own.as_("reader").get("/tables/sales.totals", headers=BROWSER)
    cookie = first.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_viewed_table_that_is_gone_or_not_open_is_not_listed(own: Service) -> None:
    client = own.as_("admin")
    for name in ("sales.totals", "sales.orders", "gold.secret_plans"):
        _text(client, f"/tables/{name}")
    other = own.as_("reader", "sales.*")
    other.cookies.update(client.cookies)

    own.lake.drop("sales.totals")

    assert _viewed(other) == ["sales.orders"]
    assert _viewed(client) == ["gold.secret_plans", "sales.orders"]
    client.post("/logout")
    assert _viewed(client) == []


def test_any_content_of_the_cookie_is_harmless(own: Service) -> None:
    script = "%3Cscript%3Ealert(1)%3C/script%3E"
    for text in (script, "|||", "%ff%00|%", f"{script}|sales.orders", "a|" * 5000, "sales.orders"):
        client = own.as_("reader")
        client.cookies.set(VIEWED, text)

        page = client.get("/", headers=BROWSER)

        assert page.status_code == 200
        assert "alert(1)" not in page.text
        is_listed = text.endswith("sales.orders")
        assert ("Recently viewed" in page.text) == is_listed


def test_the_cookie_has_few_names_and_stays_short(own: Service) -> None:
    client = own.as_("reader")
    names = [f"sales.{letter * 60}ü{letter * 60}" for letter in "abcdefghijklmn"]
    for name in names:
        own.lake.create(name, "id int64")
        _text(client, f"/tables/{name}")

    assert _viewed(client) == names[:-11:-1]
    long = [f"sales.{'ü' * 100}{letter}" for letter in "abcdef"]
    for name in long:
        own.lake.create(name, "id int64")
        _text(client, f"/tables/{name}")
        assert len(client.cookies[VIEWED]) <= 2000
    assert _viewed(client)[0] == long[-1]


def test_viewed_tables_do_not_make_a_user_a_stranger(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, anonymous=None, strangers_rate=0.001, strangers_burst=2)
    client = service.client(cookies={COOKIE: shared.lake.create_token("ann").secret})

    for path in ("/", "/tables/sales.orders", "/tables/sales.totals", "/tables/sales.orders", "/"):
        _text(client, path)

    assert _viewed(client) == ["sales.orders", "sales.totals"]


def test_whoever_tries_tokens_in_cookies_is_limited(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, anonymous=None, strangers_rate=0.001, strangers_burst=3)
    known = shared.lake.create_token("bob").secret
    assert service.client(cookies={COOKIE: known}).get("/api/v1").status_code == 200

    tried = []
    for number in range(4):
        # The application takes the token of the last cookie; others must not hide it.
        headers = [
            ("cookie", f"{COOKIE}={known}"),
            ("cookie", f"{COOKIE}=nonsense-{number}"),
            ("cookie", "other=1"),
        ]
        tried.append(service.client().get("/api/v1", headers=headers).status_code)

    assert tried == [401, 401, 429, 429]
