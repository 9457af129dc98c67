"""The REST API answers what the lake answers, page by page, and changes what it may."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from pyarrow import parquet

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.model.records import to_json
from lakeward.web.hiding import Hiding
from lakeward.write.transaction.transaction import Transaction
from tests.support.service import ARROW, PARQUET, Service, orders, stream


@pytest.fixture(scope="module")
def client(shared: Service) -> httpx.Client:
    return shared.as_("admin")


def test_answers_are_the_records_of_the_lake(shared: Service, client: httpx.Client) -> None:
    lake, hide = shared.lake, Hiding(shared.lake, "lake")
    orders = lake.table("sales.orders")
    newest = lake.transactions(limit=1)[0].transaction_id
    expected = {
        "/tables/sales.orders": orders.at().details(),
        "/tables/sales.orders?version=1": orders.at(version=1).details(),
        "/tables/sales.orders/history": {
            "table": "sales.orders",
            "versions": orders.history(),
            "next": None,
        },
        "/tables/sales.orders/diff?from=0&to=2": orders.diff(0, 2),
        "/tables/sales.orders/diff": orders.diff(1, 2),
        "/tables/sales.orders/schemas": {"table": "sales.orders", "schemas": orders.schemas()},
        "/tables/sales.orders/health": orders.health(),
        "/tables/sales.orders/policy": lake.policy("sales.orders"),
        "/tables/sales.orders/retention": orders.retention(),
        "/tables": {"tables": [t.at().info() for t in lake.tables()], "next": None},
        "/tags": {"tags": lake.tags()},
        "/jobs": {"jobs": lake.jobs()},
        "/locks": {"locks": lake.locks()},
        "/runs": {"runs": lake.runs()},
        "/policies": {"policies": lake.policies()},
        "/violations": {"violations": lake.violations()},
        "/stats": lake.stats(),
        "/transactions": {"transactions": lake.transactions()},
        f"/transactions/{newest}": lake.transaction_record(newest),
        "/audit": {"entries": lake.audit(), "next": None},
    }
    for path, record in expected.items():
        found = client.get(f"/api/v1{path}")
        assert found.status_code == 200, found.text
        assert found.json() == hide.deeply(to_json(record)), path


def test_prometheus_can_scrape_the_service(shared: Service) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    response = shared.as_("reader").get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    found = {family.name: family for family in text_string_to_metric_families(response.text)}
    assert found["lakeward_tables"].samples[0].value == len(shared.lake.tables())
    assert shared.client().get("/metrics").status_code == 401


def test_pages_follow_each_other_by_cursors(client: httpx.Client, shared: Service) -> None:
    def pages(path: str, field: str) -> list[list[object]]:
        out, more = [], None
        while True:
            answer = client.get(path, params={"limit": 2, **({"cursor": more} if more else {})})
            assert answer.status_code == 200, answer.text
            out.append(answer.json()[field])
            more = answer.json()["next"]
            if more is None:
                return out

    for path, field in {
        "/api/v1/tables": "tables",
        "/api/v1/tables/sales.orders/history": "versions",
        "/api/v1/tables/sales.orders/rows": "rows",
        "/api/v1/tables/sales.orders/files": "files",
        "/api/v1/tables/sales.orders/audit": "entries",
        "/api/v1/audit": "entries",
    }.items():
        found = pages(path, field)
        whole = client.get(path, params={"limit": 1000}).json()[field]
        assert [one for page in found for one in page] == whole, path
        assert all(len(page) == 2 for page in found[:-1])
        assert len(whole) > 1
    for wrong in ("nonsense", "e30", "eyJhZnRlciI6MX0"):
        assert client.get("/api/v1/tables", params={"cursor": wrong}).status_code == 400


@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_cursor_with_a_number_that_no_list_has_is_refused(
    client: httpx.Client, number: int
) -> None:
    table = "/api/v1/tables/sales.orders"
    for path, place in (
        (f"{table}/rows", {"version": 1, "offset": number}),
        (f"{table}/files", {"version": 1, "offset": number}),
        (f"{table}/history", {"until": number}),
        (f"{table}/diff/files", {"added": number, "ordinal": 0}),
    ):
        text = base64.urlsafe_b64encode(orjson.dumps(place)).decode().rstrip("=")
        answer = client.get(path, params={"cursor": text})
        assert answer.status_code == 400, path


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_outside_the_calendar_is_refused(client: httpx.Client, moment: str) -> None:
    table = "/api/v1/tables/sales.orders"
    for path, params in (
        (table, {"timestamp": moment}),
        (f"{table}/changes", {"since": moment}),
        ("/api/v1/snapshot", {"at": moment}),
    ):
        answer = client.get(path, params=params)
        assert answer.status_code in (400, 404), path
        assert "years 1 to 9999" in answer.text or answer.status_code == 404, answer.text


def test_a_cursor_keeps_its_version(own: Service) -> None:
    client = own.as_("writer")
    path, headers = "/api/v1/tables/sales.orders/rows", {"content-type": ARROW}
    first = client.get(path, params={"limit": 3}).json()
    client.post(path, content=stream(orders(90, 91)), headers=headers)

    rest = client.get(path, params={"limit": 100, "cursor": first["next"]}).json()

    assert rest["version"] == first["version"]
    assert sorted(r["id"] for r in first["rows"] + rest["rows"]) == [1, 2, 3, 4, 5]
    other = client.get(path, params={"version": 1, "cursor": first["next"]})
    assert other.status_code == 400


def test_rows_at_a_version_as_json_and_as_an_arrow_stream(client: httpx.Client) -> None:
    path = "/api/v1/tables/sales.orders/rows"
    where = {"where": "amount > 1 and region = 'eu'", "columns": ["id"]}

    page = client.get(path, params={**where, "version": 1}).json()
    arrow = client.get(path, params=where, headers={"accept": ARROW})
    rows = pa.ipc.open_stream(arrow.content).read_all()

    assert sorted(r["id"] for r in page["rows"]) == [2, 3]
    assert arrow.headers["content-type"] == ARROW
    assert arrow.headers["x-lakeward-version"] == "2"
    assert sorted(rows["id"].to_pylist()) == [2, 3]
    assert client.get(path, params={"where": "nonsense >"}).status_code == 400
    assert client.get(path, params={"version": 99}).status_code == 404


def test_errors_are_problem_details_with_the_facts_of_the_tree(client: httpx.Client) -> None:
    answer = client.get("/api/v1/tables/sales.orders", params={"version": 99})

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["type"] == "urn:lakeward:error:VersionNotFound"
    assert found["facts"]["version"] == 99
    assert found["instance"] == "/api/v1/tables/sales.orders"
    assert client.post("/api/v1/tags", content=b"{").json()["status"] == 400
    assert client.put("/api/v1/tags").json()["status"] == 405


def test_the_api_describes_itself(client: httpx.Client) -> None:
    described = client.get("/api/v1/openapi.json").json()

    assert described["openapi"].startswith("3.")
    assert "/api/v1/tables/{table}/rows" in described["paths"]
    undescribed = [
        f"{method} {path}"
        for path, methods in described["paths"].items()
        for method, one in methods.items()
        if not one.get("description")
    ]
    assert undescribed == []


def test_a_table_is_created_filled_altered_tagged_restored_and_dropped(
    own: Service, tmp_path: Path
) -> None:
    client = own.as_("admin")
    body = {"name": "new.events", "schema": "id int64 not null", "format": "iceberg"}
    path = "/api/v1/tables/new.events"
    parquet.write_table(pa.table({"id": [1, 2]}), tmp_path / "rows.parquet")

    assert client.post("/api/v1/tables", json=body).status_code == 201
    assert client.post("/api/v1/tables", json=body).status_code == 409
    rows = (tmp_path / "rows.parquet").read_bytes()
    done = client.post(f"{path}/rows", content=rows, headers={"content-type": PARQUET})
    assert done.json()["versions"] == {"new.events": 1}
    tagged = client.post("/api/v1/tags", json={"name": "before", "tables": ["new.events"]})
    assert tagged.json()["versions"] == {"new.events": 1}
    altered = client.post(f"{path}/alter", json={"changes": ["ADD COLUMN note string"]})
    assert altered.json()["versions"] == {"new.events": 2}
    restoring = {"at": "before", "tables": ["new.events"]}
    planned = client.post("/api/v1/restore", json={**restoring, "dry_run": True})
    assert planned.status_code == 200, planned.text
    assert own.lake.table("new.events").version == 2
    assert client.post("/api/v1/restore", json=restoring).json()["versions"] == {"new.events": 3}
    assert own.lake.table("new.events").schema.names == ["id"]
    assert client.delete("/api/v1/tags/before").status_code == 200
    assert client.delete(path).status_code == 200
    assert client.get(path).status_code == 404


def test_a_change_with_the_same_key_is_made_once(own: Service) -> None:
    client = own.as_("writer")
    path, headers = "/api/v1/tables/sales.orders/rows", {"content-type": ARROW}
    keyed = {**headers, "idempotency-key": "night-2026-11-17"}

    first = client.post(path, content=stream(orders(7)), headers=keyed)
    again = client.post(path, content=stream(orders(7)), headers=keyed)
    other = client.post(
        "/api/v1/tables/sales.totals/rows", content=stream(orders(7)), headers=keyed
    )

    assert first.status_code == again.status_code == 200, again.text
    assert first.json()["versions"] == again.json()["versions"] == {"sales.orders": 3}
    assert first.json()["transaction_id"] == again.json()["transaction_id"]
    assert own.lake.table("sales.orders").count("id = 7") == 1
    assert other.status_code == 400
    short = client.post(path, content=b"", headers={**headers, "idempotency-key": "x y"})
    assert short.status_code == 400


def test_a_key_holds_for_quarantined_rows_and_renamed_tables(own: Service) -> None:
    rule = lw.Check("v >= 0", on_violation="quarantine")
    own.lake.create("sales.q", "v int64", policy=lw.Policy(constraints={"positive": rule}))
    client = own.as_("writer")
    keyed = {"content-type": ARROW, "idempotency-key": "with-quarantine"}
    rows = stream(pa.table({"v": [1, -1]}))

    first, again = (
        client.post("/api/v1/tables/sales.q/rows", content=rows, headers=keyed) for _ in range(2)
    )
    own.lake.rename("sales.q", "sales.r")
    renamed = client.post("/api/v1/tables/sales.r/rows", content=rows, headers=keyed)

    aside = {"sales.q__quarantine": 1}
    assert first.json()["versions"] == again.json()["versions"] == {"sales.q": 1, **aside}
    assert renamed.json()["versions"] == {"sales.r": 1, **aside}
    assert own.lake.table("sales.r").count() == own.lake.table("sales.q__quarantine").count() == 1
    other = client.post("/api/v1/tables/sales.q__quarantine/rows", content=rows, headers=keyed)
    assert other.status_code == 400


def test_a_key_belongs_to_the_caller_who_used_it_first(own: Service) -> None:
    path, keyed = "/api/v1/tables/sales.orders/rows", {"content-type": ARROW}
    keyed["idempotency-key"] = "used-by-two"
    one, two = own.as_("writer", name="one"), own.as_("writer", name="two")
    failed = one.post(path, content=stream(pa.table({"nope": [1]})), headers=keyed)

    before = two.post(path, content=stream(orders(8)), headers=keyed)
    first = one.post(path, content=stream(orders(7)), headers=keyed)
    other = two.post(path, content=stream(orders(8)), headers=keyed)

    assert failed.status_code != 200
    assert before.status_code == other.status_code == 400, other.text
    assert first.status_code == 200
    assert own.lake.table("sales.orders").count("id IN (7, 8)") == 1


def test_a_key_that_two_callers_use_at_the_same_time_is_refused_to_the_second(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = own.lake.acting_as("one"), own.lake.acting_as("two")
    append = Transaction.append

    def append_late(tx: Transaction, name: str, data: Any, **given: Any) -> Any:
        monkeypatch.undo()
        with pytest.raises(InvalidInput, match="another change"):
            two.append_once("sales.orders", orders(8), key="at-the-same-time")
        return append(tx, name, data, **given)

    monkeypatch.setattr(Transaction, "append", append_late)
    done = one.append_once("sales.orders", orders(7), key="at-the-same-time")
    assert done.versions == {"sales.orders": 3}
    assert own.lake.table("sales.orders").count("id IN (7, 8)") == 1


def test_rows_that_violate_a_constraint_are_refused(own: Service) -> None:
    rows = orders(1).set_column(2, "amount", pa.array([-1.0]))
    answer = own.as_("writer").post(
        "/api/v1/tables/sales.orders/rows", content=stream(rows), headers={"content-type": ARROW}
    )

    assert answer.status_code == 422
    assert answer.json()["facts"]["constraint"] == "positive"
    assert own.lake.table("sales.orders").version == 2


def test_maintenance_is_planned_and_run(own: Service) -> None:
    client, path = own.as_("admin"), "/api/v1/tables/sales.orders"
    own.lake.table("sales.orders").append(orders(20))

    planned = client.post(f"{path}/optimize", json={"dry_run": True})
    done = client.post(f"{path}/optimize", json={})

    assert planned.status_code == done.status_code == 200, done.text
    assert done.json()["state"] == "done"
    assert client.get("/api/v1/jobs").json()["jobs"][0]["kind"] == "optimize"
    for kind in ("vacuum", "expire", "checkpoint"):
        assert client.post(f"{path}/{kind}", json={}).status_code == 200
    assert client.post(f"{path}/vacuum", json={"retention": "1s"}).status_code == 400
    assert client.post(f"{path}/vacuum", json={"force": True}).status_code == 400
