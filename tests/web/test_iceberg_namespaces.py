"""Namespaces and views of the Iceberg REST catalog, names of several levels, and OAuth2."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    OAuthError,
)
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from lakeward.errors import InvalidName
from lakeward.model.namespaces import ancestors, joined, levels_of
from tests.support.rest import catalog_of, totals
from tests.support.service import Service

COLUMNS = Schema(NestedField(1, "id", LongType()))
V1 = "/iceberg/v1"


def test_namespaces_have_properties_and_are_dropped_when_they_are_empty(own: Service) -> None:
    catalog = catalog_of(own)

    catalog.create_namespace("team", {"owner": "anna", "note": "x"})
    changed = catalog.update_namespace_properties("team", {"note"}, {"owner": "bert"})

    assert (changed.updated, changed.removed, changed.missing) == (["owner"], ["note"], [])
    assert catalog.load_namespace_properties("team") == {"owner": "bert"}
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("team")
    catalog.create_table("team.t", COLUMNS)
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("team")
    catalog.drop_table("team.t")
    catalog.drop_namespace("team")
    assert not catalog.namespace_exists("team")
    with pytest.raises(NoSuchNamespaceError):
        catalog.drop_namespace("team")
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_table("team.t", COLUMNS)


def test_a_namespace_of_delta_tables_cannot_be_dropped_under_them(own: Service) -> None:
    client = own.as_("admin")
    client.post(f"{V1}/namespaces", json={"namespace": ["gold"]})

    assert client.delete(f"{V1}/namespaces/gold").status_code == 409
    own.lake.drop("gold.secret_plans")
    assert client.delete(f"{V1}/namespaces/gold").status_code == 204


@pytest.mark.parametrize("tables", ["team.t", "team.t*"])
def test_a_token_for_some_tables_does_not_change_their_namespace(own: Service, tables: str) -> None:
    own.lake.create("team.t", "id int64", format="iceberg")
    client, path = own.as_("admin", tables=tables), f"{V1}/namespaces/team"

    assert client.get(path).status_code == 200
    assert client.post(f"{path}/properties", json={"updates": {"a": "b"}}).status_code == 403
    assert client.delete(path).status_code == 403
    assert client.post(f"{V1}/namespaces", json={"namespace": ["team", "new"]}).status_code == 404
    of_all = own.as_("writer", tables="te*.*")
    assert of_all.post(f"{path}/properties", json={"updates": {"a": "b"}}).status_code == 200
    assert of_all.delete(path).status_code == 403


def test_a_property_is_not_set_and_removed_at_once(own: Service) -> None:
    client = own.as_("writer")
    client.post(f"{V1}/namespaces", json={"namespace": ["team"]})
    body = {"updates": {"a": "1"}, "removals": ["a"]}

    answer = client.post(f"{V1}/namespaces/team/properties", json=body)

    assert answer.status_code == 422
    for wrong in ({"updates": {"exists": "x"}}, {"updates": {"a": 1}}, {"removals": "a"}):
        wrong_answer = client.post(f"{V1}/namespaces/team/properties", json=wrong)
        assert wrong_answer.status_code == 400, wrong


def test_levels_of_a_namespace_are_joined_in_names_of_the_lake(own: Service) -> None:
    catalog = catalog_of(own)

    catalog.create_namespace(("emea", "de"))
    catalog.create_table(("emea", "de", "orders"), COLUMNS)

    assert own.lake.table("emea__de.orders").format == "iceberg"
    assert catalog.list_namespaces() == [("emea",), ("sales",)]
    assert catalog.list_namespaces("emea") == [("emea", "de")]
    assert catalog.list_tables(("emea", "de")) == [("emea", "de", "orders")]
    assert catalog.list_tables("emea") == []
    assert catalog.load_table(("emea", "de", "orders")).schema().column_names == ["id"]
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("emea")
    # A token for the joined name opens the table, and no other.
    some = catalog_of(own, "reader", "emea__de.*")
    assert some.table_exists(("emea", "de", "orders"))
    assert some.list_namespaces() == [("emea",)]
    assert not some.table_exists("sales.totals")


@pytest.mark.parametrize(
    ("levels", "name"),
    [(("a",), "a"), (("a", "b"), "a__b"), (("a_b", "c"), "a_b__c"), (("__a",), "__a")],
)
def test_levels_and_names_lead_to_each_other(levels: tuple[str, ...], name: str) -> None:
    assert joined(levels) == name
    assert levels_of(name) == levels


@pytest.mark.parametrize("levels", [(), ("",), ("a_", "b"), ("a", "_b"), ("a", "b__c"), ("a.b",)])
def test_levels_that_would_not_come_back_are_refused(levels: tuple[str, ...]) -> None:
    with pytest.raises(InvalidName):
        joined(levels)
    assert ancestors("a__b__c") == ["a", "a__b"]


def test_long_lists_come_in_pages(own: Service) -> None:
    for number in range(5):
        own.lake.create(f"many.t{number}", "id int64", format="iceberg")
    client = own.as_("reader")
    found: list[str] = []
    token: str | None = ""
    while token is not None:
        path = f"{V1}/namespaces/many/tables?pageSize=2&pageToken={token}"
        page = client.get(path).json()
        found += [one["name"] for one in page["identifiers"]]
        token = page["next-page-token"]

    assert found == [f"t{number}" for number in range(5)]


def test_a_view_is_kept_for_engines(own: Service) -> None:
    client, path = own.as_("admin"), f"{V1}/namespaces/sales/views"

    made = client.post(path, json=view("big", "SELECT 1"))
    uuid = made.json()["metadata"]["view-uuid"]
    replaced = client.post(f"{path}/big", json=replacing(uuid, "SELECT 2"))

    assert (made.status_code, replaced.status_code) == (200, 200), replaced.text
    loaded = client.get(f"{path}/big").json()["metadata"]
    assert loaded["current-version-id"] == 2
    assert [v["representations"][0]["sql"] for v in loaded["versions"]] == ["SELECT 1", "SELECT 2"]
    assert client.get(path).json()["identifiers"] == [{"namespace": ["sales"], "name": "big"}]
    assert client.head(f"{path}/big").status_code == 204
    # Another view of this name, or a table, cannot be made; tables are not views.
    assert client.post(path, json=view("big", "SELECT 3")).status_code == 409
    assert client.post(path, json=view("totals", "SELECT 3")).status_code == 409
    other = client.post(f"{path}/big", json=replacing("another", "SELECT 3"))
    assert other.status_code == 409
    names = {"source": at("big"), "destination": at("small")}
    assert client.post(f"{V1}/views/rename", json=names).status_code == 204
    assert client.get(f"{path}/big").status_code == 404
    assert client.delete(f"{path}/small").status_code == 204
    assert own.lake.doctor().healthy
    assert {t.name for t in own.lake.tables()} == {
        "gold.secret_plans",
        "sales.orders",
        "sales.totals",
    }


@pytest.mark.parametrize(
    "change",
    [
        {"view-version": None},
        {"schema": None},
        {"schema": {"type": "struct", "fields": [{"id": "x"}]}},
        {"view-version": {"representations": [], "schema-id": 0}},
        {"properties": {"version.history.num-entries": "0"}},
    ],
    ids=str,
)
def test_a_view_that_is_none_is_refused(own: Service, change: dict[str, Any]) -> None:
    client = own.as_("writer")

    answer = client.post(f"{V1}/namespaces/sales/views", json={**view("v", "SELECT 1"), **change})

    assert answer.status_code == 400, answer.text
    assert client.get(f"{V1}/namespaces/sales/views").json()["identifiers"] == []


def test_a_view_keeps_its_dialects_and_its_newest_versions(own: Service) -> None:
    client, path = own.as_("writer"), f"{V1}/namespaces/sales/views"
    body = view("v", "SELECT 0")
    body["properties"] = {"version.history.num-entries": "2"}
    uuid = client.post(path, json=body).json()["metadata"]["view-uuid"]
    for number in range(1, 5):
        client.post(f"{path}/v", json=replacing(uuid, f"SELECT {number}"))
    kept = client.get(f"{path}/v").json()["metadata"]["versions"]
    lost = client.post(f"{path}/v", json=replacing(uuid, "SELECT 9", dialect="trino"))

    assert [v["version-id"] for v in kept] == [4, 5]
    assert lost.status_code == 400
    assert "loss of view dialects" in lost.text


def test_changes_with_a_key_are_made_once(own: Service) -> None:
    client = own.as_("admin")

    def twice(method: str, path: str, key: str, **body: Any) -> list[int]:
        headers = {"idempotency-key": key}
        asked = (client.request(method, V1 + path, headers=headers, **body) for _ in range(2))
        return [answer.status_code for answer in asked]

    table = {"name": "t", "schema": {"type": "struct", "fields": []}}
    renamed = {"source": at("t", "once"), "destination": at("u", "once")}
    assert twice("POST", "/namespaces", "k1", json={"namespace": ["once"]}) == [200, 200]
    properties = {"updates": {"a": "1"}}
    assert twice("POST", "/namespaces/once/properties", "k2", json=properties) == [200, 200]
    assert twice("POST", "/namespaces/once/tables", "k3", json=table) == [200, 200]
    assert twice("POST", "/tables/rename", "k4", json=renamed) == [204, 204]
    assert twice("DELETE", "/namespaces/once/tables/u", "k5") == [204, 204]
    views = "/namespaces/once/views"
    assert twice("POST", views, "k6", json=view("v", "SELECT 1")) == [200, 200]
    assert twice("DELETE", f"{views}/v", "k7") == [204, 204]
    assert twice("DELETE", "/namespaces/once", "k8") == [204, 204]
    # A key stands for one change.
    again = {"idempotency-key": "k8"}
    other = client.delete(f"{V1}/namespaces/sales/tables/totals", headers=again)
    assert other.status_code == 400
    assert own.lake.table("sales.totals").version == 1


def test_a_key_of_another_change_commits_nothing(own: Service) -> None:
    from tests.support.rest import staged

    client = own.as_("admin")
    change = staged(catalog_of(own).load_table("sales.totals"), totals(1.0))
    headers = {"idempotency-key": "used"}
    client.post(f"{V1}/namespaces", json={"namespace": ["x"]}, headers=headers)

    answer = client.post(f"{V1}/namespaces/sales/tables/totals", json=change, headers=headers)

    assert answer.status_code == 400
    assert own.lake.table("sales.totals").version == 1


def test_clients_of_oauth_exchange_a_token_as_their_secret(own: Service) -> None:
    token = own.lake.create_token("engine", role="reader")
    uri = f"{own.url}/iceberg"
    server = {"oauth2-server-uri": f"{uri}/v1/oauth/tokens"}

    catalog = RestCatalog("lake", uri=uri, credential=f"engine:{token.secret}", **server)

    assert catalog.list_tables("sales") == [("sales", "totals")]
    with pytest.raises(OAuthError):
        RestCatalog("lake", uri=uri, credential="engine:nonsense", **server)
    own.lake.revoke_token(token.token_id)
    answer = httpx.post(
        f"{uri}/v1/oauth/tokens",
        data={"grant_type": "client_credentials", "client_secret": token.secret},
    )
    assert answer.status_code == 401
    assert answer.json()["error"] == "invalid_client"
    wrong = httpx.post(f"{uri}/v1/oauth/tokens", data={"grant_type": "password"})
    assert wrong.json()["error"] == "unsupported_grant_type"


def test_tables_are_renamed(own: Service) -> None:
    catalog = catalog_of(own)
    catalog.create_namespace("team")

    catalog.rename_table("sales.totals", "team.sums")

    assert catalog.load_table("team.sums").scan().to_arrow().num_rows == 1
    catalog.load_table("team.sums").append(totals(2.0))
    assert own.lake.table("team.sums").count() == 2
    with pytest.raises(NoSuchTableError):
        catalog.rename_table("sales.totals", "team.x")
    with pytest.raises(NoSuchTableError):
        # A Delta table is none of the catalog's.
        catalog.rename_table("sales.orders", "team.x")


def at(name: str, namespace: str = "sales") -> dict[str, Any]:
    return {"namespace": [namespace], "name": name}


def version(sql: str, schema: int = 0, dialect: str = "spark") -> dict[str, Any]:
    return {
        "version-id": 1,
        "schema-id": schema,
        "timestamp-ms": 1_800_000_000_000,
        "summary": {},
        "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        "default-namespace": ["sales"],
    }


def view(name: str, sql: str) -> dict[str, Any]:
    fields = [{"id": 1, "name": "n", "required": False, "type": "int"}]
    schema = {"type": "struct", "schema-id": 0, "fields": fields}
    return {"name": name, "schema": schema, "view-version": version(sql), "properties": {}}


def replacing(uuid: str, sql: str, dialect: str = "spark") -> dict[str, Any]:
    return {
        "requirements": [{"type": "assert-view-uuid", "uuid": uuid}],
        "updates": [
            {"action": "add-view-version", "view-version": version(sql, 0, dialect)},
            {"action": "set-current-view-version", "view-version-id": -1},
        ],
    }
