"""Limits, headers and hostile requests: refused with a 4xx, and nothing of the server is shown."""

from __future__ import annotations

import logging
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.model.roles import Role
from lakeward.web import serving
from lakeward.web.access import COOKIE
from lakeward.web.hiding import Hiding
from lakeward.web.protocol import TimedProtocol
from lakeward.web.settings import Settings
from tests.support.service import ARROW, PARQUET, Service, asked, listed, made_lake, orders


def test_every_answer_has_an_id_and_forbids_foreign_scripts(shared: Service) -> None:
    for path in ("/api/v1", "/healthz", "/none", "/api/v1/tables/none"):
        answer = shared.client().get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert len(answer.headers["x-request-id"]) >= 8
        assert "server" not in answer.headers


def test_a_request_keeps_its_id(shared: Service) -> None:
    client = shared.client()

    kept = client.get("/none", headers={"x-request-id": "from-the-proxy.1"})
    bad = client.get("/none", headers={"x-request-id": "no id <script>"})

    assert kept.headers["x-request-id"] == kept.json()["request_id"] == "from-the-proxy.1"
    assert "script" not in bad.headers["x-request-id"]


def test_other_names_of_this_machine_are_refused(
    serve: Callable[..., Service], shared: Service
) -> None:
    """A page on the web whose name resolves to 127.0.0.1 cannot read the lake."""
    client = serve(shared.lake, anonymous=Role.ADMIN).client()

    assert client.get("/api/v1", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/api/v1", headers={"host": "localhost:1"}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_a_change_that_another_site_asks_for_is_refused(
    serve: Callable[..., Service], shared: Service, headers: dict[str, str]
) -> None:
    client = serve(shared.lake, anonymous=Role.ADMIN).client()

    answer = client.post("/api/v1/tags", json={"name": "forged"}, headers=headers)

    assert answer.status_code == 403
    assert [t.name for t in shared.lake.tags() if t.name == "forged"] == []


def test_bodies_are_limited_in_size(serve: Callable[..., Service], shared: Service) -> None:
    settings = {"max_json": 100, "max_upload": 1000, "anonymous": Role.ADMIN}
    client = serve(shared.lake, **settings).client()
    before = shared.lake.table("sales.orders").version

    said = client.post("/api/v1/tags", content=b'{"name": "' + b"x" * 200 + b'"}')
    streamed = client.post(
        "/api/v1/tables/sales.orders/rows",
        content=(b"x" * 100 for _ in range(50)),
        headers={"content-type": ARROW},
    )

    assert said.status_code == 413
    assert streamed.status_code == 413
    assert shared.lake.table("sales.orders").version == before


def test_a_body_that_says_that_it_is_too_large_is_not_waited_for(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, anonymous=Role.ADMIN)
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as large:
        large.sendall(
            b"POST /api/v1/tags HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000000000\r\n\r\n"
        )
        assert b" 413 " in large.recv(1000)


def test_a_body_that_does_not_arrive_is_given_up(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, body_seconds=0.3, anonymous=Role.ADMIN)
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as slow:
        slow.sendall(
            b"POST /api/v1/tags HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n{"
        )
        assert b" 408 " in slow.recv(1000)


def test_paths_and_secrets_of_the_server_are_hidden(
    own: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = own.as_("admin")
    file = next((tmp_path / "lake").rglob("*.parquet"))
    file.unlink()
    paths = [f"/api/v1{p}" for p in ("/tables", "/tables/sales.totals", "/doctor", "/audit")]

    texts = [client.get(path).text for path in paths]
    texts += [client.get(f"/api/v1/tables/{t}/rows").text for t in ("sales.orders", "sales.totals")]

    assert all(texts)
    assert not [text for text in texts if str(tmp_path) in text]
    assert '"location":"warehouse:/sales/totals"' in texts[1]
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-key-of-the-server")
    hiding = Hiding(own.lake, "postgresql://me:pass-word@host/db")
    assert hiding.deeply({"a": ["x s3cr3t-key-of-the-server y", "pass-word"]}) == {
        "a": ["x *** y", "***"]
    }


def test_names_that_climb_out_are_refused(shared: Service) -> None:
    client = shared.as_("admin")

    for name in ("%2e%2e", "..%2f..%2fetc", "a.b.c", "x';--", "%00", "_delta_log"):
        assert client.get(f"/api/v1/tables/{name}").status_code in (400, 404), name
    made = client.post("/api/v1/tables", json={"name": "../x", "schema": "id int64"})
    assert made.status_code == 400


def test_an_unexpected_error_says_nothing_of_itself(
    serve: Callable[..., Service], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        message = f"the password is hunter2 in {tmp_path}"
        raise RuntimeError(message)

    with made_lake(tmp_path / "lake") as lake:
        client = serve(lake).client()
        monkeypatch.setattr(lw.Lake, "locks", broken)
        answer = client.get("/api/v1/locks")

        assert answer.status_code == 500
        assert answer.json()["title"] == "Unexpected error"
        assert "hunter2" not in answer.text
        assert str(tmp_path) not in answer.text


def test_no_changing_route_follows_a_page_of_another_site(shared: Service) -> None:
    """The browser of somebody who is signed in sends the cookie along; the routes are all asked."""
    token = shared.lake.create_token(role="admin")
    client = shared.client(cookies={COOKIE: token.secret}, follow_redirects=False)
    changing = [(m, p) for m, p, _ in listed(shared) if m not in ("GET", "HEAD")]
    before = {t.name: t.version for t in shared.lake.tables()}
    assert client.get("/api/v1").json()["role"] == "admin"

    for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
        client.headers = httpx.Headers(headers)
        answers = {(m, p): asked(client, m, p) for m, p in changing}
        assert {k: a.status_code for k, a in answers.items() if a.status_code != 403} == {}
        assert {a.json()["detail"] for a in answers.values()} == {
            "A page of another site asked for this change."
        }

    assert len(changing) >= 15
    assert {t.name: t.version for t in shared.lake.tables()} == before


def test_a_head_that_does_not_arrive_is_given_up(
    serve: Callable[..., Service], shared: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a few hundred silent connections would keep everybody else out."""
    monkeypatch.setattr(TimedProtocol, "head_seconds", 0.3)
    service = serve(shared.lake)
    place = service.url.removeprefix("http://").split(":")
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for before, part in ((b"", b""), (b"", b"GET /healthz HT"), (whole, b"GET /")):
        with socket.create_connection((place[0], int(place[1])), timeout=10) as slow:
            slow.sendall(before)
            answer = b""
            while before and not answer.endswith(b"}"):
                answer += slow.recv(10_000)
            assert (b" 200 " in answer) is bool(before)
            slow.sendall(part)
            assert slow.recv(10_000) == b""


def test_one_caller_cannot_keep_the_service_busy(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, anonymous=None, rate=0.1, burst=5)
    busy, other = service.as_("reader"), service.as_("reader")

    answers = [busy.get("/api/v1") for _ in range(7)]

    assert [a.status_code for a in answers] == [200] * 5 + [429] * 2
    assert answers[-1].headers["retry-after"] == "1"
    assert other.get("/api/v1").status_code == 200


def test_rows_are_limited_by_what_they_are_in_memory(
    serve: Callable[..., Service], shared: Service
) -> None:
    """A few bytes of Parquet can hold very many rows."""
    client = serve(shared.lake, anonymous=Role.ADMIN, max_rows=1 << 20).client()
    before = shared.lake.table("sales.orders").version
    sink = pa.BufferOutputStream()
    pq.write_table(orders(*[1] * 100_000), sink)
    body = sink.getvalue().to_pybytes()

    answer = client.post(
        "/api/v1/tables/sales.orders/rows", content=body, headers={"content-type": PARQUET}
    )

    assert len(body) < 10_000
    assert answer.status_code == 413
    assert "bytes in memory" in answer.json()["detail"]
    assert shared.lake.table("sales.orders").version == before


def test_the_log_has_no_secret_no_query_and_no_path(
    serve: Callable[..., Service],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not when an endpoint fails either: the server would print the whole exception."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t-key-of-the-server")

    def broken(*_: object, **__: object) -> None:
        message = f"s3cr3t-key-of-the-server in {tmp_path / 'lake'}"
        raise RuntimeError(message)

    caplog.set_level(logging.INFO)
    with made_lake(tmp_path / "lake") as lake:
        token = lake.create_token(role="admin")
        client = serve(lake, anonymous=None).client(token.secret)
        monkeypatch.setattr(lw.Lake, "locks", broken)
        assert client.get("/api/v1/locks").status_code == 500
        read = client.get("/api/v1/tables/sales.orders/rows", params={"where": "amount > 987"})
        assert read.status_code == 200
        # A request is logged after its response was sent.
        deadline = time.monotonic() + 10
        while "/rows 200" not in caplog.text and time.monotonic() < deadline:
            time.sleep(0.01)

    # The client of the test logs, too.
    form = logging.Formatter()
    logged = "\n".join(form.format(r) for r in caplog.records if r.name != "httpx")
    assert "RuntimeError" in logged
    assert "GET /api/v1/tables/sales.orders/rows 200" in logged
    for hidden in ("s3cr3t", str(tmp_path / "lake"), "987", token.secret, token.secret[-43:]):
        assert hidden not in logged


def test_a_path_does_not_begin_a_line_of_the_log(
    shared: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "lakeward.web")
    shared.as_("reader").get("/api/v1/tables/x%0Aforged%0D%1B%5B31m%C3%A9")
    deadline = time.monotonic() + 10
    while "forged" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)

    (line,) = [r.getMessage() for r in caplog.records if "forged" in r.getMessage()]
    assert line.isascii()
    assert line.isprintable()


def test_whoever_tries_tokens_is_limited_and_users_are_not(
    serve: Callable[..., Service], shared: Service
) -> None:
    service = serve(shared.lake, anonymous=None, strangers_rate=0.001, strangers_burst=5)
    user = service.as_("reader")
    assert user.get("/api/v1").status_code == 200

    tried = [service.client(f"nonsense-{n}").get("/api/v1").status_code for n in range(10)]
    hidden = [service.client(f"x-{n}").get("/healthz").status_code for n in range(3)]

    assert tried == [401] * 4 + [429] * 6
    # A page that needs no token makes nobody known.
    assert hidden == [429] * 3
    assert user.get("/api/v1").status_code == 200


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("/login", {"token": "nonsense-{}"}),
        (
            "/iceberg/v1/oauth/tokens",
            {"grant_type": "client_credentials", "client_secret": "nonsense-{}"},
        ),
    ],
)
def test_whoever_tries_tokens_in_bodies_is_limited(
    serve: Callable[..., Service], shared: Service, path: str, form: dict[str, str]
) -> None:
    service = serve(shared.lake, anonymous=None, strangers_rate=0.001, strangers_burst=5)
    user = service.as_("reader")
    assert user.get("/api/v1").status_code == 200

    tried = [
        client.post(path, data={name: text.format(n) for name, text in form.items()}).status_code
        for n, client in enumerate([service.client(), user] * 5)
    ]

    assert tried == [401] * 4 + [429] * 6
    assert user.get("/api/v1").status_code == 200


def test_behind_a_proxy_strangers_are_told_apart_by_their_addresses(
    serve: Callable[..., Service], shared: Service
) -> None:
    shared.lake.create_token()
    limits = {"strangers_rate": 0.001, "strangers_burst": 2}
    name = "lake.example.org"
    behind = serve(shared.lake, anonymous=None, public_name=name, **limits)

    def tried(address: str, number: int) -> int:
        headers = {"host": name, "x-forwarded-for": f"198.51.100.1, {address}"}
        return behind.client(f"t{number}", headers=headers).get("/api/v1").status_code

    assert [tried("203.0.113.7", n) for n in range(4)] == [401, 401, 429, 429]
    assert tried("203.0.113.8", 9) == 401
    # Without a proxy nobody chooses an address.
    alone = serve(shared.lake, anonymous=None, **limits)
    codes = [
        alone.client(f"t{n}", headers={"x-forwarded-for": f"203.0.113.{n}"}).get("/api/v1")
        for n in range(4)
    ]
    assert [answer.status_code for answer in codes] == [401, 401, 429, 429]


def test_several_processes_have_all_settings_of_the_service(
    prepared_postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers: dict[str, Any] = {
        one.name: one.default + 1
        for one in fields(Settings)
        if isinstance(one.default, int | float) and one.name != "port"
    }
    openid = {"issuer": "https://id.example", "audience": "lakeward"}
    settings = Settings(port=0, anonymous=Role.WRITER, openid=openid, **numbers)
    found: list[Settings] = []

    class InThisProcess:
        def __init__(self, *_: object, **__: object) -> None: ...

        def run(self) -> None:
            before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
            app = cast("Any", serving.from_environment())
            signal.signal(signal.SIGINT, before[0])
            signal.signal(signal.SIGTERM, before[1])
            found.append(app._settings)
            app._app.state.lake.close()

    lw.open(prepared_postgres_url, warehouse=tmp_path).close()
    monkeypatch.setenv(serving.HANDED_OVER, "")
    monkeypatch.setattr("uvicorn.supervisors.Multiprocess", InThisProcess)
    serving.serve_by_workers(prepared_postgres_url, str(tmp_path), settings, 2)

    assert found == [settings]
    assert "query_memory" in numbers
