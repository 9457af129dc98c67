"""Who may do what: every route asks, nothing is open by accident, strangers learn nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import APIRouter

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.model.roles import Role
from lakeward.web.app import routes
from lakeward.web.settings import Settings, check_binding
from tests.support.service import Service, asked, listed, orders, stream

PUBLIC = {
    "/healthz",
    "/readyz",
    "/login",
    "/logout",
    "/static/{name}",
    "/iceberg/v1/oauth/tokens",
}
"""Routes that are open to everybody; each of them is here on purpose."""
READING = {
    "/api/v1/sql",
    # Only for writers of the table it signs requests that change files.
    "/iceberg/v1/aws/s3/sign",
    "/iceberg/v1/namespaces/{namespace}/tables/{iceberg_table}/metrics",
    "/iceberg/v1/namespaces/{namespace}/tables/{iceberg_table}/plan",
}
"""Routes that are asked by POST and change nothing."""


def test_every_route_says_who_may_use_it(shared: Service) -> None:
    every = listed(shared)

    assert len(every) > 30
    assert [(method, path) for method, path, need in every if need is None] == []
    assert {path for _, path, need in every if need and need.role is None} == PUBLIC
    # What changes something is not for readers.
    open_to_readers = PUBLIC | READING
    changing = [
        (m, p, n) for m, p, n in every if m not in ("GET", "HEAD") and p not in open_to_readers
    ]
    assert [(m, p) for m, p, n in changing if n is not None and n.role is Role.READER] == []


def test_lineage_of_a_dropped_table_is_shown_to_those_who_could_see_it(own: Service) -> None:
    for statement in (
        "CREATE TABLE sales.tmp AS SELECT id FROM sales.orders",
        "CREATE TABLE sales.last AS SELECT id FROM sales.tmp",
    ):
        with own.lake.transaction() as tx:
            tx.sql(statement)
    own.lake.drop("sales.tmp")
    seen = own.as_("reader", "sales.*").get("/api/v1/lineage")
    assert seen.status_code == 200
    assert "sales.tmp (dropped)" in seen.text
    assert "sales" not in own.as_("reader", "other.*").get("/api/v1/lineage").text


def revoked(lake: lw.Lake) -> str:
    token = lake.create_token(role="admin")
    lake.revoke_token(token.token_id)
    return token.secret


def forged(lake: lw.Lake) -> str:
    """The id of a token that there is, with a secret of the forger's own."""
    return f"lkw_{lake.create_token(role='admin').token_id}_{'A' * 43}"


SECRETS: dict[str, Callable[[lw.Lake], str | None]] = {
    "none": lambda _: None,
    "nonsense": lambda _: "nonsense",
    "unknown": lambda _: "lkw_0123456789ab_" + "A" * 43,
    "forged": forged,
    "expired": lambda lake: lake.create_token(role="admin", expires="0s").secret,
    "revoked": revoked,
}


@pytest.mark.parametrize("kind", SECRETS)
def test_no_route_answers_without_a_valid_token(shared: Service, kind: str) -> None:
    client = shared.client(SECRETS[kind](shared.lake))
    every = [(m, p) for m, p, need in listed(shared) if need is None or need.role is not None]

    answers = {(m, p): asked(client, m, p).status_code for m, p in every}

    assert {pair: status for pair, status in answers.items() if status != 401} == {}


@pytest.mark.parametrize("role", ["reader", "writer"])
def test_no_route_answers_a_smaller_role(shared: Service, role: str) -> None:
    client = shared.as_(role)
    own = Role(role)
    above = [
        (m, p)
        for m, p, need in listed(shared)
        if need and need.role and not own.includes(need.role)
    ]

    answers = {(m, p): asked(client, m, p).status_code for m, p in above}

    assert len(answers) >= 8
    assert {pair: status for pair, status in answers.items() if status != 403} == {}


def test_a_table_that_is_not_open_looks_as_if_it_did_not_exist(shared: Service) -> None:
    client = shared.as_("admin", tables="gold.*")
    on_tables = [(m, p) for m, p, _ in listed(shared) if "table}" in p]

    answers = {(m, p): asked(client, m, p) for m, p in on_tables}

    assert len(answers) >= 15
    assert {pair: a.status_code for pair, a in answers.items() if a.status_code != 404} == {}


def test_lists_have_only_what_is_open_to_the_caller(shared: Service) -> None:
    every, some = shared.as_("admin"), shared.as_("reader", tables="gold.*")
    shared.lake.tag("of-sales", tables=["sales.orders"], replace=True)
    lists = ["tables", "transactions", "tags", "audit", "health", "locks", "jobs", "violations"]

    for name in lists:
        assert "sales" not in some.get(f"/api/v1/{name}").text, name
    shown = [name for name in lists if "sales" in every.get(f"/api/v1/{name}").text]
    assert shown == ["tables", "transactions", "tags", "audit", "health"]
    # Neither do hints about names that are nearly right.
    assert "secret_plans" in shared.as_("reader").get("/api/v1/tables/gold.secret_plan").text
    near = shared.as_("reader", tables="sales.*").get("/api/v1/tables/sales.secret_plans")
    assert near.status_code == 404
    assert "gold" not in near.text


def test_a_list_is_filled_with_older_entries_that_are_open_to_the_caller(own: Service) -> None:
    client = own.as_("reader", tables="gold.*")
    lake = own.lake
    lake.create("gold.checked", "id int64", constraints={"positive": "id > 0"})
    wrong = {"gold.checked": [{"id": -1}], "sales.orders": orders(-1)}
    for name in ("gold.checked", *["sales.orders"] * 6):
        lake.table(name).append(orders(1) if name == "sales.orders" else [{"id": 1}])
        lake.table(name).optimize()
        with pytest.raises(lw.errors.ConstraintViolation):
            lake.table(name).append(wrong[name])

    found = {
        name: client.get(f"/api/v1/{name}", params={"limit": 1}).json()[name]
        for name in ("transactions", "jobs", "violations")
    }

    assert [list(t["versions"]) for t in found["transactions"]] == [["gold.checked"]]
    assert [j["table"] for j in found["jobs"]] == ["gold.checked"]
    assert [v["table"] for v in found["violations"]] == ["gold.checked"]


def test_the_audit_trail_gives_no_trace_of_tables_that_are_not_open(own: Service) -> None:
    client, lake = own.as_("reader", tables="gold.*"), own.lake
    lake.create("gold.open", "id int64")
    for n in range(12):
        lake.table("sales.orders" if n % 4 else "gold.open").append(
            orders(n) if n % 4 else [{"id": n}]
        )
    path = "/api/v1/audit"

    hidden = client.get(path, params={"table": "sales.orders", "limit": 1}).json()
    pages, cursor = [], ""
    while cursor is not None:
        more = {"cursor": cursor} if cursor else {}
        page = client.get(path, params={"limit": 1, "action": "write", **more}).json()
        pages += page["entries"]
        cursor = page["next"]

    assert hidden == {"entries": [], "next": None}
    every = lake.audit(table="gold.open", action="write")
    assert len(every) == 3
    assert [(e["table"], e["version"]) for e in pages] == [(e.table, e.version) for e in every]


def test_errors_do_not_name_tables_that_are_not_open(own: Service) -> None:
    lake = own.lake
    with lake.transaction(transaction_id="both") as tx:
        tx.append("sales.orders", orders(5))
        tx.append("gold.secret_plans", [{"id": 5}])
    lake.tag("all")
    client = own.as_("admin", tables="sales.*")

    undo = client.post("/api/v1/undo", json={"transaction_id": "both"})
    tag = {"name": "all", "tables": ["sales.orders"], "replace": True}
    moved = client.post("/api/v1/tags", json=tag)
    queries = [
        client.post("/api/v1/sql", json={"query": f"SELECT * FROM {name}"})
        for name in ("gold.secret_plans", "gold.Secret_Plans", "gold.no_such_plans")
    ]

    assert [undo.status_code, moved.status_code] == [404, 404]
    assert "secret" not in undo.text + moved.text
    assert [q.status_code for q in queries] == [404] * 3
    names = ("secret_plans", "Secret_Plans", "no_such_plans")
    said = {q.json()["detail"].replace(name, "x") for q, name in zip(queries, names, strict=True)}
    assert len(said) == 1
    # Not by a hint at a name that is nearly right, either.
    near = client.post("/api/v1/sql", json={"query": "SELECT * FROM gold.secret_plan"})
    assert "secret_plans" not in near.text


def test_access_follows_the_name_that_a_table_has_now(own: Service) -> None:
    """Transactions name a table as it was named at the commit; that opens nothing."""
    before, now = (own.as_("admin", tables=f"{schema}.*") for schema in ("sales", "moved"))
    with own.lake.transaction(transaction_id="load-1") as tx:
        tx.append("sales.orders", orders(77))
    own.lake.rename("sales.orders", "moved.orders")
    asked_for = {"transaction_id": "load-1"}

    for path in ("transactions", "transactions/load-1", "changes"):
        assert '"versions":{"sales.orders"' not in before.get(f"/api/v1/{path}").text, path
        assert '"versions":{"sales.orders"' in now.get(f"/api/v1/{path}").text, path
    assert before.post("/api/v1/undo", json=asked_for).status_code == 404
    assert own.lake.table("moved.orders").count(where="id = 77") == 1
    assert now.post("/api/v1/undo", json=asked_for).status_code == 200
    assert own.lake.table("moved.orders").count(where="id = 77") == 0


def test_access_to_cuts_and_tags_follows_the_name_that_a_table_has_now(own: Service) -> None:
    before, now = (own.as_("writer", tables=f"{schema}.*") for schema in ("sales", "moved"))
    version = own.lake.tag("then", tables=["sales.orders"]).versions["sales.orders"]
    own.lake.rename("sales.orders", "moved.orders")
    wanted = {"name": "again", "at": "then", "tables": ["sales.orders"]}
    moved = {"name": "then", "tables": ["moved.orders"], "replace": True}

    for path in ("tags", "snapshot?at=then"):
        assert '"versions":{"sales.orders"' not in before.get(f"/api/v1/{path}").text, path
        assert f'"versions":{{"sales.orders":{version}}}' in now.get(f"/api/v1/{path}").text, path
    assert before.post("/api/v1/tags", json=wanted).status_code == 404
    assert now.post("/api/v1/tags", json=wanted).json()["versions"] == {"sales.orders": version}
    assert before.post("/api/v1/tags", json=moved).status_code == 404
    assert now.post("/api/v1/tags", json=moved).status_code == 201


def test_what_is_about_the_whole_lake_needs_all_tables(shared: Service) -> None:
    client = shared.as_("admin", tables="sales.*")

    assert client.get("/api/v1/doctor").status_code == 403
    assert client.post("/api/v1/tags", json={"name": "all"}).status_code == 403
    assert client.post("/api/v1/restore", json={"at": "first"}).status_code == 403
    assert shared.as_("admin").get("/api/v1/doctor").json()["healthy"] is True


def test_a_token_ends_when_it_is_revoked_or_expired(own: Service) -> None:
    token = own.lake.create_token("etl", expires="1h")
    over = own.lake.create_token("late", expires="0s")
    client = own.client(token.secret)

    assert client.get("/api/v1").json()["caller"] == "etl"
    assert own.client(over.secret).get("/api/v1").status_code == 401
    own.lake.revoke_token(token.token_id)
    assert client.get("/api/v1").status_code == 401
    assert [t.valid for t in own.lake.tokens()] == [False, False]


def test_the_store_has_no_secret(own: Service, tmp_path: Path) -> None:
    token = own.lake.create_token("etl")
    secret = token.secret.split("_", 2)[2]
    own.lake.backup(tmp_path / "copy.db")

    assert token.secret not in repr(token)
    assert secret.encode() not in (tmp_path / "copy.db").read_bytes()
    assert token.token_id.encode() in (tmp_path / "copy.db").read_bytes()


def test_commits_and_the_audit_trail_have_the_name_of_the_token(own: Service) -> None:
    client = own.as_("writer", tables="sales.*", name="etl@night")
    headers = {"content-type": "application/vnd.apache.arrow.stream"}

    done = client.post(
        "/api/v1/tables/sales.orders/rows", content=stream(orders(9)), headers=headers
    )

    assert done.status_code == 200, done.text
    assert own.lake.table("sales.orders").history(limit=1)[0].actor == "etl@night"
    assert own.lake.audit(table="sales.orders", limit=1)[0].actor == "etl@night"
    # The lake that others use is as it was.
    with own.lake.transaction() as tx:
        tx.append("sales.orders", orders(10))
    assert own.lake.table("sales.orders").history(limit=1)[0].actor == "tester"


def test_it_listens_elsewhere_only_for_holders_of_tokens(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        check_binding(lake, Settings())
        with pytest.raises(InvalidInput, match="no valid token"):
            check_binding(lake, Settings(host="0.0.0.0", anonymous=None))
        revoked = lake.create_token()
        lake.revoke_token(revoked.token_id)
        with pytest.raises(InvalidInput, match="no valid token"):
            check_binding(lake, Settings(host="0.0.0.0", anonymous=None))
        lake.create_token()
        check_binding(lake, Settings(host="0.0.0.0", anonymous=None))
        with pytest.raises(InvalidInput, match="without a token"):
            check_binding(lake, Settings(host="0.0.0.0", anonymous=Role.READER))


def test_without_a_token_one_may_read_on_this_machine(
    serve: Callable[..., Service], shared: Service
) -> None:
    client = serve(shared.lake).client()

    assert client.get("/api/v1").json()["role"] == "reader"
    assert client.get("/api/v1/tables").status_code == 200
    assert client.post("/api/v1/tags", json={"name": "x"}).status_code == 403
    # A wrong token is not the same as none.
    assert serve(shared.lake).client("nonsense").get("/api/v1").status_code == 401
    basic = {"Authorization": "Basic dXNlcjpzZWNyZXQ="}
    assert client.get("/api/v1", headers=basic).status_code == 401
    assert client.get("/healthz", headers=basic).status_code == 200


def test_an_endpoint_that_says_nothing_is_closed(shared: Service) -> None:
    from fastapi import Request

    from lakeward.web.access import Forbidden, authorize

    router = APIRouter()

    @router.get("/forgotten")
    def forgotten() -> str:
        return "open"

    app = routes(shared.lake, "lake", Settings(anonymous=Role.ADMIN))
    scope = {
        "type": "http",
        "app": app,
        "route": router.routes[0],
        "headers": [],
        "path_params": {},
    }
    with pytest.raises(Forbidden):
        asyncio.run(authorize(Request(scope)))


def test_names_in_bodies_are_checked_like_names_in_addresses(own: Service) -> None:
    """A token for some tables neither reads nor changes others by naming them in a body."""
    lake = own.lake
    lake.create("gold.keyed", "id int64", constraints={"one": lw.Unique("id")})
    lake.tag("month-end", tables=["gold.secret_plans"])
    client = own.as_("admin", tables="sales.*")
    key = "ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES gold.keyed (id)"
    commit = {
        "identifier": {"namespace": ["gold"], "name": "iced"},
        "requirements": [],
        "updates": [{"action": "remove-properties", "removals": ["x"]}],
    }
    created = {"name": "t", "schema": {"type": "struct", "fields": []}}
    asked = {
        "/api/v1/tables": {"name": "gold.new", "schema": "id int64"},
        "/api/v1/tables/sales.orders/alter": {"changes": [key]},
        "/api/v1/tags": {"name": "mine", "tables": ["sales.orders", "gold.secret_plans"]},
        "/api/v1/restore": {"at": "month-end", "tables": ["gold.secret_plans"]},
        "/iceberg/v1/transactions/commit": {"table-changes": [commit]},
        "/iceberg/v1/namespaces": {"namespace": ["gold"]},
        "/iceberg/v1/namespaces/gold/tables": created,
    }
    lake.create("gold.iced", "id int64", format="iceberg")

    answers = {path: client.post(path, json=body) for path, body in asked.items()}

    assert {path: a.status_code for path, a in answers.items() if a.status_code != 404} == {}
    # A tag keeps versions of its tables, so it is moved only by those who see them.
    moved = {"name": "month-end", "tables": ["sales.orders"], "replace": True}
    assert client.post("/api/v1/tags", json=moved).status_code == 404
    assert dict(lake.tags()[0].versions) == {"gold.secret_plans": 0}
    assert [t.name for t in lake.tables() if t.name == "gold.new"] == []


@pytest.mark.parametrize("name", ["x-forwarded-for", "forwarded", "x-real-ip", "via"])
def test_a_proxy_brings_nobody_in_without_a_token(
    serve: Callable[..., Service], shared: Service, name: str
) -> None:
    client = serve(shared.lake, anonymous=Role.ADMIN).client()

    assert client.get("/api/v1").status_code == 200
    assert client.get("/api/v1", headers={name: "203.0.113.7"}).status_code == 401


def test_behind_a_proxy_everybody_needs_a_token(
    serve: Callable[..., Service], shared: Service
) -> None:
    with pytest.raises(InvalidInput, match="without a token"):
        check_binding(shared.lake, Settings(public_name="lake.example.org"))
    token = shared.lake.create_token()
    behind = serve(shared.lake, anonymous=None, public_name="lake.example.org")
    client = behind.client(headers={"host": "lake.example.org"}, follow_redirects=False)

    signed = client.post("/login", data={"token": token.secret})

    assert "secure" in signed.headers["set-cookie"].lower()
    assert client.get("/healthz", headers={"host": "evil.example"}).status_code == 421
