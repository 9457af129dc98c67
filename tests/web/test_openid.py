"""Tokens of an OpenID provider: who is let in, and with which roles."""

from __future__ import annotations

import base64
import json
import socket
import time
from collections.abc import Callable, Generator
from typing import Any

import httpx
import jwt
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

import lakeward as lw
from lakeward.errors import InvalidInput, NotFound, StoreUnavailable
from lakeward.web import provider_keys
from lakeward.web.openid import Provider
from lakeward.web.settings import Settings, check_binding
from tests.support.openid import AUDIENCE, SECRET, Issuer
from tests.support.service import Service, listed, orders, stream


@pytest.fixture(scope="module")
def issuer() -> Generator[Issuer]:
    with Issuer() as issuer:
        yield issuer


@pytest.fixture
def service(own: Service, serve: Callable[..., Service], issuer: Issuer) -> Service:
    """A service that trusts the provider; a group reads, and one user writes some tables."""
    own.lake.allow("group:analysts", role="reader", tables="sales.*")
    own.lake.allow("sub:u1", role="writer", tables=["sales.orders", "team.*"])
    own.lake.allow("email:root@example.org", role="admin")
    return serve(own.lake, anonymous=None, openid=issuer.settings)


def test_a_user_has_the_roles_of_the_lake(service: Service, issuer: Issuer) -> None:
    client = service.client(issuer.token(groups=["analysts", "others"]))
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    rows = stream(orders(7))

    about = client.get("/api/v1").json()
    done = client.post("/api/v1/tables/sales.orders/rows", content=rows, headers=headers)

    assert (about["caller"], about["role"]) == ("sub:u1", "writer")
    assert set(about["tables_open"]) == {"sales.*", "sales.orders", "team.*"}
    assert done.status_code == 200, done.text
    newest = service.lake.table("sales.orders").history(limit=1)[0]
    assert newest.actor == "sub:u1"
    # A role for some tables is none for others: this one may be read, and that one not seen.
    assert client.get("/api/v1/tables/sales.totals").status_code == 200
    other = client.post("/api/v1/tables/sales.totals/rows", content=rows, headers=headers)
    assert other.status_code == 403
    assert client.get("/api/v1/tables/gold.secret_plans").status_code == 404
    made = {"name": "sales.new", "schema": "id int64"}
    assert client.post("/api/v1/tables", json=made).status_code == 403
    assert client.post("/api/v1/tables", json={**made, "name": "team.new"}).status_code == 201
    assert client.get("/api/v1/doctor").status_code == 403


def test_the_button_to_optimize_is_shown_for_tables_that_the_user_may_optimize(
    service: Service, issuer: Issuer
) -> None:
    service.lake.allow("sub:u2", role="admin", tables="gold.*")
    client = service.client(issuer.token(sub="u2", groups=["analysts"]))
    for number in range(4):
        service.lake.table("gold.secret_plans").append(pa.table({"id": [number]}))
        service.lake.table("sales.orders").append(orders(50 + number))

    def page(table: str) -> str:
        return client.get(f"/tables/{table}/health", headers={"accept": "text/html"}).text

    assert "Optimize now" in page("gold.secret_plans")
    assert "Optimize now" not in page("sales.orders")
    assert client.post("/tables/sales.orders/optimize").status_code == 403


def test_groups_and_verified_addresses_count_and_others_do_not(
    service: Service, issuer: Issuer
) -> None:
    def role(**claims: Any) -> Any:
        answer = service.client(issuer.token(**claims)).get("/api/v1")
        return answer.json().get("role"), answer.status_code

    address = {"sub": "u9", "email": "root@example.org"}
    assert role(**address, email_verified=True) == ("admin", 200)
    # An address that nobody has checked may be anybody's.
    assert role(**address, email_verified=False) == (None, 403)
    assert role(**address) == (None, 403)
    assert role(sub="u9", groups="analysts") == ("reader", 200)
    assert role(sub="u9", groups=[1, None, {"analysts": 1}]) == (None, 403)
    assert role(sub="u9", preferred_username="u1") == (None, 403)


def foreign_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def unsigned(issuer: Issuer) -> str:
    def part(body: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")

    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "u1", "exp": int(time.time()) + 300}
    return f"{part({'alg': 'none', 'kid': 'first'})}.{part(claims)}."


def by_shared_secret(issuer: Issuer) -> str:
    """Signed with the text of the public key as if it were a shared secret."""
    (key,) = issuer.keys.values()
    form, kind = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    text = key.public_key().public_bytes(form, kind)
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","kid":"first"}').rstrip(b"=")
    claims = jwt.utils.base64url_encode(
        json.dumps(
            {"iss": issuer.url, "aud": AUDIENCE, "sub": "u1", "exp": int(time.time()) + 300}
        ).encode()
    )
    import hashlib
    import hmac

    signed = hmac.new(text, head + b"." + claims, hashlib.sha256).digest()
    return (head + b"." + claims + b"." + jwt.utils.base64url_encode(signed)).decode()


def by_published_secret(issuer: Issuer) -> str:
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "u1", "exp": int(time.time()) + 300}
    return jwt.encode(claims, SECRET, algorithm="HS256", headers={"kid": "published"})


WRONG: dict[str, Callable[[Issuer], str]] = {
    "another issuer": lambda i: i.token(iss="https://evil.example"),
    "another audience": lambda i: i.token(aud="somebody-else"),
    "no audience": lambda i: i.token(aud=None),
    "expired": lambda i: i.token(exp=int(time.time()) - 60),
    "without an end": lambda i: i.token(exp=None),
    "not yet valid": lambda i: i.token(nbf=int(time.time()) + 300),
    "no subject": lambda i: i.token(sub=None),
    "another key": lambda i: i.token(key=foreign_key()),
    "unknown key": lambda i: i.token(headers={"kid": "nobody"}),
    "unsigned": unsigned,
    "shared secret": by_shared_secret,
    "published secret": by_published_secret,
    "changed": lambda i: i.token()[:-4] + "AAAA",
    "nonsense": lambda _: "a.b.c",
}


@pytest.mark.parametrize("kind", WRONG)
def test_forged_tokens_open_no_route(service: Service, issuer: Issuer, kind: str) -> None:
    client = service.client(WRONG[kind](issuer))

    answers = {
        path: client.get(path).status_code
        for method, path, need in listed(service)
        if method == "GET" and need is not None and need.role is not None and "{" not in path
    }

    assert len(answers) > 20
    assert {path: status for path, status in answers.items() if status != 401} == {}


def test_a_new_key_is_found_and_unknown_ones_do_not_flood_the_provider(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Issuer() as issuer:
        provider = Provider(**issuer.settings)
        assert provider.identity_of(issuer.token()) is not None
        for number in range(20):
            assert provider.identity_of(issuer.token(headers={"kid": f"n{number}"})) is None
        assert issuer.asked == 1
        issuer.rotate("second", kind="ec")
        monkeypatch.setattr(provider_keys, "_AGAIN_SECONDS", 0.0)
        found = provider.identity_of(issuer.token())
        assert found is not None
        assert found.names == {"sub:u1"}
        assert issuer.asked == 2


def test_a_provider_that_does_not_answer_lets_nobody_in(
    own: Service, serve: Callable[..., Service]
) -> None:
    with Issuer() as issuer:
        settings, token = issuer.settings, issuer.token()
    service = serve(own.lake, anonymous=None, openid=settings)

    answer = service.client(token).get("/api/v1")

    assert answer.status_code == 503
    # Tokens of the lake work on.
    assert service.as_("reader").get("/api/v1").status_code == 200


def test_a_silent_provider_is_asked_now_and_then_and_holds_up_no_known_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It accepts connections and never answers; who has a known key does not wait for it."""
    monkeypatch.setattr(provider_keys, "_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(provider_keys, "_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(provider_keys, "_RENEW_SECONDS", 0.0)
    monkeypatch.setattr(provider_keys, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(provider_keys, "_AFTER_FAILURE_SECONDS", 60.0)
    with Issuer() as issuer:
        provider = Provider(**issuer.settings)
        known, unknown = issuer.token(), issuer.token(headers={"kid": "other"})
        assert provider.identity_of(known) is not None
        port = int(issuer.url.rpartition(":")[2])
    # Keys too old to be used while the provider answers are used while it does not.
    with socket.create_server(("127.0.0.1", port)) as silent:
        for _ in range(20):
            assert provider.identity_of(known) is not None
        for _ in range(20):
            with pytest.raises(StoreUnavailable, match=r"does not answer.*\n*.*some seconds"):
                provider.identity_of(unknown)
        while provider._keys._is_fetching:
            time.sleep(0.01)
        monkeypatch.setattr(provider_keys, "_KEYS_SECONDS", 0.0)
        assert provider.identity_of(known) is not None
        monkeypatch.setattr(provider_keys, "_WITHOUT_PROVIDER_SECONDS", 0.0)
        with pytest.raises(StoreUnavailable):
            provider.identity_of(known)
        assert _connections(silent) == 1


def test_keys_are_fetched_again_after_no_thread_could_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(_: object) -> None:
        message = "can't start new thread"
        raise RuntimeError(message)

    monkeypatch.setattr(provider_keys, "_AFTER_FAILURE_SECONDS", 0.0)
    with Issuer() as issuer:
        provider, token = Provider(**issuer.settings), issuer.token()
        with monkeypatch.context() as full:
            full.setattr("threading.Thread.start", refused)
            with pytest.raises(StoreUnavailable):
                provider.identity_of(token)
        assert provider.identity_of(token) is not None


def _connections(server: socket.socket) -> int:
    """How many connections a server that never accepted one has been asked for."""
    server.setblocking(False)
    found = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return found
        found += 1


@pytest.mark.parametrize("issuer", ["http://example.org", "example.org", "file:///keys", ""])
def test_keys_come_by_a_safe_way(issuer: str) -> None:
    with pytest.raises(InvalidInput):
        Provider(issuer, AUDIENCE)
    with pytest.raises(InvalidInput):
        Provider("https://example.org", "")


def test_roles_are_given_listed_and_taken_away(own: Service) -> None:
    lake = own.lake
    lake.allow("group:a", role="reader", tables=["x.*", "y.*"])
    lake.allow("group:a", role="writer", tables="x.*")

    assert [(m.tables, m.role) for m in lake.allowed()] == [("x.*", "writer"), ("y.*", "reader")]
    lake.disallow("group:a")
    assert lake.allowed() == []
    with pytest.raises(NotFound):
        lake.disallow("group:a")
    for wrong in ("analysts", "role:x", "group:", "group: "):
        with pytest.raises(InvalidInput):
            lake.allow(wrong)


def test_it_listens_elsewhere_for_members_of_a_provider(own: Service, issuer: Issuer) -> None:
    settings = Settings(host="0.0.0.0", anonymous=None, openid=issuer.settings)
    with pytest.raises(InvalidInput, match="no valid token"):
        check_binding(own.lake, settings)
    own.lake.allow("group:analysts")
    check_binding(own.lake, settings)
    with pytest.raises(InvalidInput, match="no valid token"):
        check_binding(own.lake, Settings(host="0.0.0.0", anonymous=None))


def test_the_dashboard_takes_a_token_of_the_provider(service: Service, issuer: Issuer) -> None:
    client = service.client(follow_redirects=False)
    token = issuer.token(groups=["analysts"])

    signed = client.post("/login", data={"token": token})
    page = client.get("/", headers={"accept": "text/html"})

    assert signed.status_code == 303
    assert page.status_code == 200
    assert "sub:u1" in page.text
    assert token not in page.text
    wrong = httpx.post(f"{service.url}/login", data={"token": issuer.token(aud="x")})
    assert wrong.status_code == 401


def test_members_are_kept_with_the_store(own: Service) -> None:
    own.lake.allow("group:a", tables="x.*")
    assert lw.open(own.lake.warehouse).allowed()[0].name == "group:a"
