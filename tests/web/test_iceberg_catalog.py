"""The Iceberg REST catalog, as pyiceberg uses it: read, create, write, several tables at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier, Transaction
from pyiceberg.table.update import AssertCreate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from lakeward.model import steps
from tests.support.rest import catalog_of, staged, totals
from tests.support.service import Service


def test_pyiceberg_lists_and_reads_the_tables(shared: Service) -> None:
    catalog = catalog_of(shared, "reader")

    assert catalog.list_namespaces() == [("sales",)]
    assert catalog.list_tables("sales") == [("sales", "totals")]
    assert catalog.table_exists("sales.totals")
    assert not catalog.table_exists("sales.none")
    assert catalog.load_table("sales.totals").scan().to_arrow().num_rows == 1
    # A Delta table is not shown as something else.
    with pytest.raises(NoSuchTableError):
        catalog.load_table("sales.orders")
    assert catalog_of(shared, "reader", "gold.*").list_namespaces() == []


def test_pyiceberg_creates_writes_evolves_and_drops(own: Service) -> None:
    catalog = catalog_of(own)
    schema = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "region", StringType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"))
    rows = pa.table(
        {"id": [1, 2, 3], "region": ["eu", "us", "eu"]},
        schema=pa.schema([pa.field("id", pa.int64(), nullable=False), ("region", pa.string())]),
    )

    catalog.create_namespace("engine")
    table = catalog.create_table("engine.events", schema, partition_spec=spec)
    table.append(rows)
    table.delete("id = 2")
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.append(rows.append_column("note", pa.array(["n"] * 3)))

    own_table = own.lake.table("engine.events")
    assert own_table.count() == 5
    assert own_table.partition_by == ["region"]
    assert own_table.schema.names == ["id", "region", "note"]
    operations = [(v.version, v.operation, v.actor) for v in own_table.history()][::-1]
    assert [o[1] for o in operations][:3] == ["CREATE TABLE", "APPEND", "DELETE"]
    assert operations[1][2] == "engine"
    assert catalog.load_table("engine.events").scan().to_arrow().num_rows == 5
    assert own.lake.doctor().healthy
    catalog.drop_table("engine.events")
    assert not catalog.table_exists("engine.events")


def test_a_commit_over_several_tables_is_one_transaction(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    catalog = catalog_of(own, "writer")
    client = own.as_("writer", name="engine")
    changes = [
        staged(catalog.load_table("sales.totals"), totals(1.0, 2.0)),
        staged(catalog.load_table("sales.more"), totals(3.0)),
    ]

    done = client.post("/iceberg/v1/transactions/commit", json={"table-changes": changes})

    assert done.status_code == 204, done.text
    newest = [own.lake.table(f"sales.{n}").history(limit=1)[0] for n in ("totals", "more")]
    assert len({v.transaction_id for v in newest}) == 1
    assert [v.members for v in newest] == [2, 2]
    assert own.lake.table("sales.totals").count() == 3
    # Sent again it does not hold any more, and nothing changes.
    again = client.post("/iceberg/v1/transactions/commit", json={"table-changes": changes})
    assert again.status_code == 409
    assert again.json()["error"]["type"] == "CommitFailedException"
    assert own.lake.table("sales.more").count() == 1


def test_a_conflict_in_one_table_keeps_all_back(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    catalog, client = catalog_of(own, "writer"), own.as_("writer")
    changes = [
        staged(catalog.load_table("sales.more"), totals(3.0)),
        staged(catalog.load_table("sales.totals"), totals(1.0)),
    ]
    own.lake.table("sales.totals").append(totals(9.0))

    done = client.post("/iceberg/v1/transactions/commit", json={"table-changes": changes})

    assert done.status_code == 409
    assert own.lake.table("sales.more").version == 0
    assert own.lake.table("sales.totals").version == 2


def test_a_commit_with_a_key_is_made_once(own: Service) -> None:
    client = own.as_("writer")
    change = staged(catalog_of(own, "writer").load_table("sales.totals"), totals(1.0))
    headers = {"idempotency-key": "engine-commit-1"}

    answers = [
        client.post("/iceberg/v1/namespaces/sales/tables/totals", json=change, headers=headers)
        for _ in range(2)
    ]

    assert [a.status_code for a in answers] == [200, 200], answers[-1].text
    assert own.lake.table("sales.totals").count() == 2


def test_a_key_that_was_used_for_other_tables_acknowledges_nothing(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    catalog, client = catalog_of(own, "writer"), own.as_("writer")
    headers = {"idempotency-key": "engine-commit-2"}
    codes = []
    for name in ("totals", "more"):
        change = staged(catalog.load_table(f"sales.{name}"), totals(1.0))
        body = {"table-changes": [change]}
        answer = client.post("/iceberg/v1/transactions/commit", json=body, headers=headers)
        codes.append(answer.status_code)

    assert codes == [204, 400]
    assert own.lake.table("sales.more").count() == 0


def test_what_a_commit_requires_holds_when_it_is_ratified(own: Service) -> None:
    """Not only before: somebody commits while the rows are checked."""
    change = staged(catalog_of(own, "writer").load_table("sales.totals"), totals(1.0))

    def commit_between(step: str) -> None:
        if step == "validate.done":
            steps.observe(None)
            own.lake.table("sales.totals").append(totals(2.0))

    steps.observe(commit_between)
    try:
        answer = own.as_("writer").post(
            "/iceberg/v1/transactions/commit", json={"table-changes": [change]}
        )
    finally:
        steps.observe(None)

    assert answer.status_code == 409, answer.text
    assert answer.json()["error"]["type"] == "CommitFailedException"
    assert sorted(own.lake.table("sales.totals").to_arrow()["amount"].to_pylist()) == [2.0, 6.0]


@pytest.mark.parametrize("rows", [0, 2])
def test_pyiceberg_creates_a_table_together_with_its_rows(own: Service, rows: int) -> None:
    catalog = catalog_of(own)
    schema = Schema(NestedField(1, "region", StringType()), NestedField(2, "amount", DoubleType()))
    with catalog.create_table_transaction("sales.staged", schema) as tx:
        if rows:
            tx.append(totals(*map(float, range(rows))))
        assert not catalog.table_exists("sales.staged")

    assert catalog.load_table("sales.staged").scan().to_arrow().num_rows == rows
    assert own.lake.table("sales.staged").count() == rows
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table_transaction("sales.staged", schema)
    catalog.load_table("sales.staged").append(totals(9.0))
    assert own.lake.table("sales.staged").count() == rows + 1
    assert own.lake.doctor().healthy


def test_a_staged_table_is_created_at_its_own_place_only(own: Service) -> None:
    """Otherwise a writer would take over the directory of another table."""
    catalog = catalog_of(own)
    schema = Schema(NestedField(1, "region", StringType()), NestedField(2, "amount", DoubleType()))
    tx = catalog.create_table_transaction("sales.staged", schema)
    tx.append(totals(1.0))
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(["sales"]), name="staged"),
        requirements=(AssertCreate(),),
        updates=tx._updates,
    )
    body = orjson.loads(request.model_dump_json())
    (placed,) = [u for u in body["updates"] if u["action"] == "set-location"]
    for place in (f"{own.lake.warehouse}/sales/totals", "/etc", f"{placed['location']}/../x"):
        placed["location"] = place
        answer = own.as_("writer").post("/iceberg/v1/namespaces/sales/tables/staged", json=body)
        assert answer.status_code in (400, 406), answer.text
    assert not catalog.table_exists("sales.staged")
    # At a place above another table, that table's rows would be the new one's.
    own.lake.create("gold.hidden", "region string, amount float64", format="iceberg")
    own.lake.table("gold.hidden").append(totals(42.0))
    theirs = catalog.load_table("gold.hidden").current_snapshot()
    assert theirs is not None
    placed["location"] = f"{own.lake.warehouse}/gold"
    (added,) = [u for u in body["updates"] if u["action"] == "add-snapshot"]
    added["snapshot"]["manifest-list"] = theirs.manifest_list
    thief = own.as_("writer", tables="sales.*")
    stolen = thief.post("/iceberg/v1/namespaces/sales/tables/staged", json=body)
    assert stolen.status_code == 400, stolen.text
    assert not catalog.table_exists("sales.staged")


def test_a_table_is_registered_by_those_who_see_everything(own: Service, tmp_path: Path) -> None:
    other = SqlCatalog("o", uri=f"sqlite:///{tmp_path}/o.db", warehouse=f"file://{tmp_path}/o")
    other.create_namespace("x")
    made = other.create_table("x.there", totals(1.0).schema)
    made.append(totals(1.0, 2.0))
    body = {"name": "taken", "metadata-location": made.metadata_location}
    path = "/iceberg/v1/namespaces/sales/register"

    assert own.as_("admin", tables="sales.*").post(path, json=body).status_code == 403
    table = catalog_of(own).register_table("sales.taken", made.metadata_location)

    assert table.scan().to_arrow().num_rows == own.lake.table("sales.taken").count() == 2


def test_settings_of_the_lake_are_not_properties_for_engines(own: Service) -> None:
    table = catalog_of(own, "writer").load_table("sales.totals")

    with pytest.raises(BadRequestError, match=r"lakeward\.constraint"), table.transaction() as tx:
        tx.set_properties({"lakeward.constraint.mine": "amount > 0"})
    with pytest.raises(BadRequestError, match=r"lakeward\.transaction"):
        # As if another transaction, of another actor, had made the snapshot.
        table.append(totals(1.0), snapshot_properties={"lakeward.transaction-id": "x"})
    with table.transaction() as tx:
        tx.set_properties({"owner": "engine"})

    assert own.lake.table("sales.totals").properties["owner"] == "engine"
    assert own.lake.table("sales.totals").history(limit=1)[0].actor == "engine"


def test_constraints_hold_for_other_engines(own: Service) -> None:
    own.lake.create(
        "sales.checked",
        "region string, amount float64",
        format="iceberg",
        constraints={"positive": "amount > 0"},
    )
    table = catalog_of(own, "writer").load_table("sales.checked")

    with pytest.raises(BadRequestError, match="positive"):
        table.append(totals(-1.0))

    assert own.lake.table("sales.checked").version == 0
    table.append(totals(1.0))
    assert own.lake.table("sales.checked").count() == 1


def test_a_writer_whose_snapshot_is_old_is_told_to_load_again(own: Service) -> None:
    catalog = catalog_of(own, "writer")
    change = staged(catalog.load_table("sales.totals"), totals(1.0))
    old = catalog.load_table("sales.totals")
    own.lake.table("sales.totals").append(totals(2.0))

    with pytest.raises(CommitFailedException):
        catalog.commit_table(old, *_parsed(change))


def _parsed(change: dict[str, Any]) -> tuple[Any, Any]:
    request = CommitTableRequest.model_validate(change)
    return request.requirements, request.updates


def test_readers_cannot_write_and_others_tables_are_closed(own: Service) -> None:
    reader = catalog_of(own, "reader").load_table("sales.totals")
    with pytest.raises(ForbiddenError):
        reader.append(totals(1.0))
    change = staged(reader, totals(1.0))
    other = own.as_("writer", tables="gold.*")

    closed = other.post("/iceberg/v1/transactions/commit", json={"table-changes": [change]})

    assert closed.status_code == 404
    assert own.lake.table("sales.totals").version == 1


@pytest.mark.parametrize("what", ["outside", "elsewhere", "missing"])
def test_a_commit_reads_no_files_but_the_tables_own(own: Service, what: str) -> None:
    change = staged(catalog_of(own, "writer").load_table("sales.totals"), totals(1.0))
    (added,) = [u for u in change["updates"] if u["action"] == "add-snapshot"]
    place = {
        "outside": "file:///etc/passwd",
        "elsewhere": f"{own.lake.warehouse}/gold/secret_plans/_delta_log/0.json",
        "missing": added["snapshot"]["manifest-list"] + ".none",
    }[what]
    added["snapshot"]["manifest-list"] = place

    answer = own.as_("writer").post("/iceberg/v1/namespaces/sales/tables/totals", json=change)

    assert answer.status_code == 400, answer.text
    assert "root:" not in answer.text
    if what != "missing":
        assert "outside of the directory of sales.totals" in answer.text
    assert own.lake.table("sales.totals").version == 1


@pytest.mark.parametrize(
    ("way", "why"),
    [
        ("{hidden}", "outside of the directory"),
        ("{own}/../../gold/hidden", "not named in full|climbs out of a directory"),
    ],
)
def test_a_data_file_of_another_table_is_refused(own: Service, way: str, why: str) -> None:
    """A writer of one table cannot read another one by naming its files."""
    own.lake.create("gold.hidden", "region string, amount float64", format="iceberg")
    own.lake.table("gold.hidden").append(totals(42.0))
    theirs = own.lake.table("gold.hidden")
    table = catalog_of(own, "writer").load_table("sales.totals")
    place = way.format(hidden=theirs.location, own=table.location())
    file = f"{place}/{theirs.files()[0].path}"
    tx = Transaction(table)
    tx.add_files([file])
    client = own.as_("writer", tables="sales.*")
    rows_only = tuple(u for u in tx._updates if u.action != "set-properties")

    for updates in (tx._updates, rows_only):
        request = CommitTableRequest(
            identifier=TableIdentifier(namespace=Namespace(["sales"]), name="totals"),
            requirements=tx._requirements,
            updates=updates,
        )
        answer = client.post(
            "/iceberg/v1/namespaces/sales/tables/totals", content=request.model_dump_json()
        )
        assert answer.status_code == 400, answer.text
        assert re.search(why, answer.text)
    assert own.lake.table("sales.totals").count() == 1


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[]", b"{", b"{}", b'{"updates": [{"action": "none"}]}', b'{"updates": []}'),
        b'{"table-changes": [{"identifier": {"namespace": ["sales"], "name": "totals"}}]}',
    ],
)
def test_bodies_that_are_none_are_refused(shared: Service, body: bytes) -> None:
    client: httpx.Client = shared.as_("writer")

    for path in (
        "namespaces/sales/tables/totals",
        "transactions/commit",
        "namespaces/sales/tables",
    ):
        answer = client.post(f"/iceberg/v1/{path}", content=body)
        assert answer.status_code == 400, (path, answer.text)
        assert answer.json()["error"]["code"] == 400
