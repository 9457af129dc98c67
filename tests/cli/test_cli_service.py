"""`lakeward serve` and `lakeward token`."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

import lakeward as lw
from tests.cli.console import ask, run, tell
from tests.cli.serving import serving
from tests.support.service import ARROW, orders, stream


def test_a_token_is_shown_once_listed_and_revoked(own_shop: Path) -> None:
    options = ("--role", "writer", "--tables", "sales.*", "--expires", "30d", "--lake", own_shop)

    made = ask("token", "create", "etl", *options)
    text = tell("token", "create", "--lake", own_shop)
    listed = ask("token", "list", "--lake", own_shop)["tokens"]

    assert made["secret"].startswith(f"lkw_{made['token_id']}_")
    # The secret is a line of its own, so that it can be copied.
    (secret,) = [line for line in text.splitlines() if line.startswith("lkw_")]
    with lw.open(own_shop) as lake:
        assert lake.token_of(secret) is not None
    assert next(t["name"] for t in listed) == "etl"
    assert listed[0]["tables"] == ["sales.*"]
    assert "secret" not in listed[0]
    assert made["secret"] not in tell("token", "list", "--lake", own_shop)
    done = ask("token", "revoke", made["token_id"], "--lake", own_shop)
    assert done["valid"] is False
    assert run("token", "revoke", "none", "--lake", own_shop).code == 3


@pytest.mark.parametrize(
    "wrong", [("--role", "king"), ("--tables", "a.b.c"), ("--expires", "soon"), ("a b",)]
)
def test_a_token_that_cannot_be_is_refused(own_shop: Path, wrong: tuple[str, ...]) -> None:
    assert run("token", "create", *wrong, "--lake", own_shop).code == 2
    assert ask("token", "list", "--lake", own_shop)["tokens"] == []


def test_it_does_not_listen_elsewhere_without_tokens(own_shop: Path) -> None:
    answer = run("serve", "--host", "0.0.0.0", "--port", "0", "--lake", own_shop, "--json")
    anonymous = ("--host", "0.0.0.0", "--anonymous", "reader", "--port", "0")
    tell("token", "create", "--lake", own_shop)

    assert answer.code == 2
    assert "token" in answer.error["message"]
    assert run("serve", *anonymous, "--lake", own_shop, "--json").code == 2


def test_a_port_that_is_taken_is_an_error(own_shop: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert run("serve", "--port", port, "--lake", own_shop, "--json").code == 8


def test_a_commit_that_is_under_way_is_finished_when_the_service_ends(own_shop: Path) -> None:
    with lw.open(own_shop) as lake:
        lake.create("new.orders", orders(1).schema)
    body = stream(orders(1, 2, 3))
    with serving(own_shop, "--anonymous", "writer") as (process, address):
        assert httpx.get(f"{address}/readyz").status_code == 200
        host, port = address.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as slow:
            slow.sendall(
                b"POST /api/v1/tables/new.orders/rows HTTP/1.1\r\nHost: localhost\r\n"
                + f"Content-Type: {ARROW}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                + body[:10]
            )
            assert httpx.get(f"{address}/readyz").status_code == 200
            process.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            slow.sendall(body[10:])
            assert b" 200 " in slow.recv(1000)
        assert process.wait(60) == 0
    with lw.open(own_shop) as lake:
        assert lake.table("new.orders").count() == 3


@pytest.mark.postgres
def test_several_workers_say_where_they_are_log_and_end_while_pages_are_open(
    prepared_postgres_url: str, tmp_path: Path
) -> None:
    lw.open(prepared_postgres_url, warehouse=tmp_path).close()
    with serving(prepared_postgres_url, "--workers", "2", "--log") as (process, address):
        with httpx.stream("GET", f"{address}/events", timeout=60) as page:
            assert next(page.iter_lines()).startswith("retry:")
            assert httpx.get(f"{address}/readyz", timeout=60).status_code == 200
            process.send_signal(signal.SIGTERM)
            asked = time.monotonic()
            code = process.wait(60)
        assert code == 0
        # Streams end at once, and not when the time for running requests is over.
        assert time.monotonic() - asked < 15
        assert process.stderr is not None
        assert "GET /readyz 200" in process.stderr.read()
