"""Commits of several tables by REST clients that create some of them: all of it, or nothing."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Transaction
from pyiceberg.types import StringType

from tests.support.rest import catalog_of, commit_of, created, staged, totals
from tests.support.service import Service

COMMIT = "/iceberg/v1/transactions/commit"


def _created(catalog: RestCatalog, name: str, *appends: int) -> dict[str, Any]:
    return created(catalog, ("sales", name), *(pa.table({"n": [n]}) for n in appends))


def _altered(catalog: RestCatalog, name: str) -> dict[str, Any]:
    tx = Transaction(catalog.load_table(f"sales.{name}"))
    with tx.update_schema() as update:
        update.add_column("note", StringType())
    return commit_of(tx, "sales", name)


def test_tables_are_created_beside_commits_to_others_in_one_transaction(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    catalog, client = catalog_of(own, "writer"), own.as_("writer", name="etl")
    heard: list[Any] = []
    own.lake.on("commit", heard.append)
    changes = [
        _created(catalog, "empty"),
        staged(catalog.load_table("sales.totals"), totals(1.0)),
        _created(catalog, "filled", 1, 2),
        _altered(catalog, "more"),
    ]
    headers = {"idempotency-key": "all-at-once"}

    answers = [
        client.post(COMMIT, json={"table-changes": changes}, headers=headers) for _ in range(2)
    ]

    assert [answer.status_code for answer in answers] == [204, 204], answers[0].text
    tables = [own.lake.table(f"sales.{n}") for n in ("empty", "totals", "filled", "more")]
    newest = [table.history(limit=1)[0] for table in tables]
    assert {version.transaction_id for version in newest} == {"all-at-once"}
    assert {version.members for version in newest} == {4}
    assert {version.actor for version in newest} == {"etl"}
    assert len({version.timestamp for version in newest}) == 1
    assert [table.count() for table in tables] == [0, 2, 2, 0]
    assert [e.action for e in own.lake.audit(table="sales.filled")] == ["CREATE TABLE"]
    read = catalog_of(own).load_table("sales.filled").scan().to_arrow()
    assert sorted(read["n"].to_pylist()) == [1, 2]
    tables[2].append(pa.table({"n": [3]}))
    assert catalog_of(own).load_table("sales.filled").scan().to_arrow().num_rows == 3
    found = [change.tables for change in own.lake.changes()]
    filled = [t["sales.filled"] for t in found if "sales.filled" in t]
    assert [c.to_reader().read_all()["n"].to_pylist() for c in filled] == [[], [1], [2], [3]]
    assert [set(t) for t in found if "sales.empty" in t] == [
        {"sales.empty", "sales.filled", "sales.more", "sales.totals"}
    ]
    assert own.lake.doctor().healthy
    own.lake.close()
    assert [e.transaction_id for e in heard][:1] == ["all-at-once"]


def test_several_tables_are_created_at_once(own: Service) -> None:
    catalog = catalog_of(own, "writer")
    changes = [_created(catalog, "one", 1), _created(catalog, "two", 2)]

    answer = own.as_("writer").post(COMMIT, json={"table-changes": changes})

    assert answer.status_code == 204, answer.text
    made = [own.lake.table(f"sales.{n}").history(limit=1)[0] for n in ("one", "two")]
    assert made[0].transaction_id == made[1].transaction_id
    assert own.lake.doctor().healthy


@pytest.mark.parametrize("hindrance", ["a conflict", "a taken name", "a view"])
def test_what_hinders_one_table_keeps_all_back(own: Service, hindrance: str) -> None:
    catalog, before = catalog_of(own, "writer"), own.lake.table("sales.totals").version
    changes = [
        _created(catalog, "made", 1),
        staged(catalog.load_table("sales.totals"), totals(1.0)),
        _created(catalog, "made_too", 2),
    ]
    match hindrance:
        case "a conflict":
            own.lake.table("sales.totals").append(totals(5.0))
            before += 1
        case "a taken name":
            own.lake.create("sales.made_too", "n int64", format="iceberg")
        case "a view":
            body = _view("made_too")
            view = own.as_("writer").post("/iceberg/v1/namespaces/sales/views", json=body)
            assert view.status_code == 200, view.text

    answer = own.as_("writer").post(COMMIT, json={"table-changes": changes})

    assert answer.status_code == 409, answer.text
    assert "sales.made" not in [table.name for table in own.lake.tables()]
    assert own.lake.table("sales.totals").version == before
    assert own.lake.doctor().healthy


def test_a_table_that_appears_meanwhile_keeps_all_back(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.model.steps import reach
    from lakeward.write.branch import remote_swap

    catalog, before = catalog_of(own, "writer"), own.lake.table("sales.totals").version
    changes = [
        _created(catalog, "made", 1),
        staged(catalog.load_table("sales.totals"), totals(1.0)),
    ]

    def meanwhile(step: str) -> None:
        if step == "iceberg.prepared":
            own.lake.create("sales.made", "n int64", format="iceberg")
        reach(step)

    monkeypatch.setattr(remote_swap, "reach", meanwhile)

    answer = own.as_("writer").post(COMMIT, json={"table-changes": changes})

    assert answer.status_code == 409, answer.text
    assert own.lake.table("sales.made").count() == 0
    assert own.lake.table("sales.totals").version == before
    assert own.lake.doctor().healthy


def test_tables_are_created_only_where_the_caller_may_write(own: Service) -> None:
    catalog, before = catalog_of(own, "writer"), own.lake.table("sales.totals").version
    changes = [
        staged(catalog.load_table("sales.totals"), totals(1.0)),
        _created(catalog, "made", 1),
    ]

    answer = own.as_("writer", tables="sales.totals").post(COMMIT, json={"table-changes": changes})

    assert answer.status_code == 404, answer.text
    assert "sales.made" not in [table.name for table in own.lake.tables()]
    assert own.lake.table("sales.totals").version == before


def _view(name: str) -> dict[str, Any]:
    sql = {"type": "sql", "sql": "SELECT 1 AS n", "dialect": "spark"}
    return {
        "name": name,
        "schema": {
            "type": "struct",
            "fields": [{"id": 1, "name": "n", "required": False, "type": "long"}],
        },
        "view-version": {
            "version-id": 1,
            "timestamp-ms": 1,
            "schema-id": 0,
            "summary": {},
            "default-namespace": ["sales"],
            "representations": [sql],
        },
        "properties": {},
    }
