"""Commits of REST clients that do more than add rows: refs, definitions, formats, foreign files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import BadRequestError, RESTError
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Namespace, TableIdentifier, Transaction
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, StructType

from tests.support.delete_files import data_files, delete_in_place
from tests.support.rest import catalog_of, requested, staged, totals
from tests.support.s3 import on_disk
from tests.support.service import Service

V1 = "/iceberg/v1"
OWN_LIST = "snap-*-*.????????"
TOTALS = f"{V1}/namespaces/sales/tables/totals"


def test_a_client_finds_its_snapshot_by_its_id_and_with_its_words(own: Service) -> None:
    table = catalog_of(own, "writer").load_table("sales.totals")
    change = staged(table, totals(1.0))
    (added,) = [u for u in change["updates"] if u["action"] == "add-snapshot"]
    added["snapshot"]["summary"]["job"] = "nightly"

    done = own.as_("writer").post(TOTALS, json=change).json()["metadata"]

    assert done["current-snapshot-id"] == added["snapshot"]["snapshot-id"]
    summary = done["snapshots"][-1]["summary"]
    assert (summary["job"], summary["operation"]) == ("nightly", "append")
    newest = own.lake.table("sales.totals").history(limit=1)[0]
    assert newest.properties["job"] == "nightly"
    assert own.lake.doctor().healthy


def test_versions_of_clients_that_documents_no_longer_list_are_restored_and_expired(
    own: Service,
) -> None:
    few = {"lakeward.snapshots": "2"}
    made = own.lake.create("sales.few", "n int64", format="iceberg", properties=few)
    table = catalog_of(own, "writer").load_table("sales.few")
    for n in range(6):
        table.append(pa.table({"n": [n]}))
    assert len(catalog_of(own).load_table("sales.few").snapshots()) < 6

    made.restore(version=1)
    made.restore(version=3)

    now: dict[str, Any] = {"retention": "0s", "force": True}
    made.expire(**now)
    assert sorted(made.at(version=2).to_arrow()["n"].to_pylist()) == [0, 1]
    made.vacuum(**now)
    made.expire(**now)
    assert len(list((on_disk(made.location) / "metadata").glob(f"{OWN_LIST}.avro"))) <= 3
    read = catalog_of(own).load_table("sales.few").scan().to_arrow()
    assert sorted(read["n"].to_pylist()) == [0, 1, 2]
    assert own.lake.doctor().healthy


def test_branches_and_tags_of_engines_are_kept(own: Service) -> None:
    catalog = catalog_of(own, "writer")
    table = catalog.load_table("sales.totals")
    first = table.current_snapshot()
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "before").commit()
    table.manage_snapshots().create_branch(first.snapshot_id, "audit").commit()
    table.append(totals(5.0), branch="audit")

    table = catalog.load_table("sales.totals")
    assert table.scan().to_arrow().num_rows == 1
    assert table.scan().use_ref("audit").to_arrow().num_rows == 2
    assert own.lake.table("sales.totals").count() == 1
    # The lake's own commits keep them.
    own.lake.table("sales.totals").append(totals(6.0))
    table = catalog.load_table("sales.totals")
    assert set(table.refs()) == {"main", "before", "audit"}
    assert table.scan().use_ref("audit").to_arrow().num_rows == 2
    own.lake.table("sales.totals").vacuum(retention="0s", force=True)
    assert table.scan().use_ref("audit").to_arrow().num_rows == 2


def test_tags_of_the_lake_are_moved_by_the_lake_only(own: Service) -> None:
    own.lake.tag("month-end", tables=["sales.totals"])
    table = catalog_of(own, "writer").load_table("sales.totals")

    with pytest.raises(BadRequestError, match="tag of the lake"):
        table.manage_snapshots().remove_tag("month-end").commit()

    assert "month-end" in catalog_of(own).load_table("sales.totals").refs()


def test_clients_only_append_to_an_append_only_table(own: Service) -> None:
    made = own.lake.create("sales.log", "n int64", format="iceberg", policy={"append_only": True})
    table = catalog_of(own, "writer").load_table("sales.log")
    table.append(pa.table({"n": [1, 2]}))

    for condition in ("n = 1", "n > 0"):
        with pytest.raises(RESTError, match="append-only"):
            table.delete(condition)

    assert sorted(made.to_arrow()["n"].to_pylist()) == [1, 2]
    assert made.version == 1


def test_versions_that_the_lake_promises_are_not_expired_by_clients(own: Service) -> None:
    table = catalog_of(own).load_table("sales.totals")
    first = table.current_snapshot()
    assert first is not None
    own.lake.table("sales.totals").append(totals(2.0))
    update = {"action": "remove-snapshots", "snapshot-ids": [first.snapshot_id]}

    answer = own.as_("admin").post(TOTALS, json={"updates": [update], "requirements": []})

    assert answer.status_code == 406, answer.text
    assert "promises" in answer.text
    assert own.lake.table("sales.totals").at(version=1).count() == 1


def test_rows_of_a_file_are_deleted_in_place_after_a_vacuum_too(own: Service) -> None:
    made = own.lake.create("sales.kept", "n int64", format="iceberg")
    made.append(pa.table({"n": [0, 1, 2]}))
    (file,) = data_files(catalog_of(own).load_table("sales.kept"))
    made.append(pa.table({"n": [9]}))

    delete_in_place(catalog_of(own).load_table("sales.kept"), {file.file_path: [0]})
    made.delete(where="n = 9")
    made.vacuum(retention="0s", force=True)
    delete_in_place(catalog_of(own).load_table("sales.kept"), {file.file_path: [1]})

    assert made.to_arrow()["n"].to_pylist() == [2]


def test_changes_of_several_definitions_are_one_transaction(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    heard: list[Any] = []
    own.lake.on("commit", heard.append)
    catalog, client = catalog_of(own, "writer"), own.as_("writer", name="etl")
    changes = []
    for name in ("totals", "more"):
        tx = Transaction(catalog.load_table(f"sales.{name}"))
        with tx.update_schema() as update:
            update.add_column("note", StringType())
        tx.append(totals(7.0).append_column("note", pa.array(["n"])))
        changes.append(_request(name, tx))
    headers = {"idempotency-key": "both-at-once"}

    codes = [
        client.post(
            f"{V1}/transactions/commit", json={"table-changes": changes}, headers=headers
        ).status_code
        for _ in range(2)
    ]

    assert codes == [204, 204]
    tables = [own.lake.table(f"sales.{n}") for n in ("totals", "more")]
    newest = [t.history(limit=1)[0] for t in tables]
    assert {v.transaction_id for v in newest} == {"both-at-once"}
    assert len({v.timestamp for v in newest}) == 1
    assert [v.members for v in newest] == [2, 2]
    assert {v.actor for v in newest} == {"etl"}
    assert [t.schema.names[-1] for t in tables] == ["note", "note"]
    assert [t.count() for t in tables] == [2, 1]
    own.lake.close()
    assert [e.transaction_id for e in heard] == ["both-at-once"]


def test_a_conflict_in_one_definition_keeps_all_back(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    catalog, client = catalog_of(own, "writer"), own.as_("writer")
    changes = []
    for name in ("totals", "more"):
        tx = Transaction(catalog.load_table(f"sales.{name}"))
        with tx.update_schema() as update:
            update.add_column("note", StringType())
        changes.append(_request(name, tx))
    with catalog.load_table("sales.more").update_schema() as update:
        update.add_column("other", StringType())

    answer = client.post(f"{V1}/transactions/commit", json={"table-changes": changes})

    assert answer.status_code == 409, answer.text
    assert "Requirement failed" in answer.text
    assert own.lake.table("sales.totals").schema.names == ["region", "amount"]
    assert own.lake.doctor().healthy


def test_a_table_is_created_as_the_client_describes_it(own: Service) -> None:
    catalog = catalog_of(own)
    inner = StructType(NestedField(12, "x", DoubleType()), NestedField(13, "y", DoubleType()))
    schema = Schema(
        NestedField(10, "id", LongType(), required=True, doc="by which a row is known"),
        NestedField(11, "place", inner),
        NestedField(14, "region", StringType()),
        identifier_field_ids=[10],
    )

    table = catalog.create_table(
        "sales.described",
        schema,
        location="/somewhere/else",
        partition_spec=PartitionSpec(PartitionField(14, 1000, IdentityTransform(), "by_region")),
        sort_order=SortOrder(SortField(10, IdentityTransform())),
        properties={"owner": "anna"},
    )

    made = table.schema()
    assert [(f.field_id, f.name, f.doc) for f in made.fields] == [
        (1, "id", "by which a row is known"),
        (2, "place", None),
        (3, "region", None),
    ]
    assert [f.field_id for f in made.find_type("place").fields] == [4, 5]
    assert made.identifier_field_ids == [1]
    assert [(f.source_id, f.name) for f in table.spec().fields] == [(3, "by_region")]
    assert [f.source_id for f in table.sort_order().fields] == [1]
    assert table.location().startswith(own.lake.warehouse)
    assert table.properties["owner"] == "anna"
    own_table = own.lake.table("sales.described")
    assert own_table.schema.by_name["id"].comment == "by which a row is known"
    assert [e.action for e in own.lake.audit(table="sales.described")] == ["CREATE TABLE"]
    # The lake's own commits keep what only the document has.
    own_table.append([{"id": 1, "place": {"x": 1.0, "y": 2.0}, "region": "eu"}])
    again = catalog.load_table("sales.described")
    assert again.schema().identifier_field_ids == [1]
    assert [f.source_id for f in again.sort_order().fields] == [1]


@pytest.mark.parametrize("version", ["1", "3"])
def test_other_format_versions_are_created_and_altered(own: Service, version: str) -> None:
    client = own.as_("admin")
    columns = [{"id": 1, "name": "id", "required": False, "type": "long"}]
    if version == "3":
        columns[0] |= {"initial-default": 7, "write-default": 7}
    body = {
        "name": "versioned",
        "schema": {"type": "struct", "fields": columns},
        "properties": {"format-version": version},
    }
    path = f"{V1}/namespaces/sales/tables"

    made = client.post(path, json=body)
    update = {"action": "set-properties", "updates": {"owner": "x"}}
    done = client.post(f"{path}/versioned", json={"updates": [update], "requirements": []})

    assert (made.status_code, done.status_code) == (200, 200), (made.text, done.text)
    found = done.json()["metadata"]
    assert found["format-version"] == int(version)
    assert found["properties"]["owner"] == "x"
    if version == "3":
        assert found["schemas"][0]["fields"][0]["initial-default"] == 7
        assert found["next-row-id"] == 0
    assert own.lake.table("sales.versioned").properties["owner"] == "x"


def test_policies_of_a_pattern_apply_to_tables_of_clients(own: Service) -> None:
    own.lake.set_policy("team.*", {"target_file_size": "8MB"})
    catalog = catalog_of(own)
    catalog.create_namespace("team")

    table = catalog.create_table("team.t", Schema(NestedField(1, "id", LongType())))

    made = own.lake.create("team.own", "id int64", format="iceberg")
    assert own.lake.policy("team.t").policy == own.lake.policy("team.own").policy
    given = {k: v for k, v in made.properties.items() if "size" in k}
    assert {k: table.properties.get(k) for k in given} == given


def test_only_those_who_may_register_tables_name_files_elsewhere(
    own: Service, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere.parquet"
    pq.write_table(totals(3.0), place)

    def adding(catalog: RestCatalog) -> None:
        catalog.load_table("sales.totals").add_files([str(place)])

    with pytest.raises(BadRequestError, match="outside of the directory"):
        adding(catalog_of(own, "writer"))
    with pytest.raises(BadRequestError, match="outside of the directory"):
        adding(catalog_of(own, "admin", "sales.*"))
    adding(catalog_of(own, "admin"))

    assert own.lake.table("sales.totals").count() == 2
    own.lake.table("sales.totals").vacuum(retention="0s", force=True)
    assert place.exists()


def test_a_snapshot_removed_and_added_again_names_no_files_elsewhere(
    own: Service, tmp_path: Path
) -> None:
    place = tmp_path / "elsewhere.parquet"
    pq.write_table(totals(3.0), place)
    table = catalog_of(own, "writer").load_table("sales.totals")
    change = requested(table, lambda tx: tx.add_files([str(place)]))
    (added,) = [u["snapshot"] for u in change["updates"] if u["action"] == "add-snapshot"]
    number, listed = added["snapshot-id"], table.current_snapshot().manifest_list
    harmless = added | {"manifest-list": listed, "timestamp-ms": 1000}
    ref = {"action": "set-snapshot-ref", "snapshot-id": number, "type": "branch"}
    writer = own.as_("writer")

    def asked(*updates: dict[str, Any]) -> int:
        body = {"requirements": [], "updates": list(updates)}
        return int(writer.post(TOTALS, json=body).status_code)

    first = asked({"action": "add-snapshot", "snapshot": harmless}, ref | {"ref-name": "b"})
    again = asked(
        {"action": "remove-snapshots", "snapshot-ids": [number]},
        {"action": "add-snapshot", "snapshot": added | {"sequence-number": 9}},
        ref | {"ref-name": "main"},
    )

    assert (first, again) == (200, 400)
    assert own.lake.table("sales.totals").version == 1


@pytest.mark.parametrize("kind", ["missing", "broken"])
def test_data_files_that_cannot_be_read_are_the_clients_mistake(own: Service, kind: str) -> None:
    own.lake.create("sales.strict", "region string not null, amount float64", format="iceberg")
    rows = pa.table(
        totals(1.0).to_pydict(),
        schema=pa.schema([pa.field("region", pa.string(), nullable=False), ("amount", "float64")]),
    )
    table = catalog_of(own, "writer").load_table("sales.strict")
    change = staged(table, rows)
    (file,) = Path(table.location()).rglob("*.parquet")
    file.unlink() if kind == "missing" else file.write_bytes(b"")

    answer = own.as_("writer").post(f"{V1}/namespaces/sales/tables/strict", json=change)

    assert answer.status_code == 400, answer.text
    assert own.lake.table("sales.strict").version == 0


@pytest.mark.parametrize(
    "update",
    [
        {"action": "none"},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "set-current-schema", "schema-id": 99},
        {"action": "set-default-spec", "spec-id": 99},
        {"action": "set-snapshot-ref", "ref-name": "x", "type": "tag", "snapshot-id": 1},
        {"action": "upgrade-format-version", "format-version": 1},
        {"action": "upgrade-format-version", "format-version": 9},
        {"action": "assign-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"action": "remove-schemas", "schema-ids": [0]},
        {"action": "remove-partition-specs", "spec-ids": [0]},
        {"action": "set-location", "location": "/etc"},
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [{"source-id": 99}]}},
    ],
    ids=lambda u: str(u["action"]),
)
def test_updates_that_do_not_fit_are_refused(shared: Service, update: dict[str, Any]) -> None:
    body = {"updates": [update], "requirements": []}

    answer = shared.as_("writer").post(TOTALS, json=body)

    assert answer.status_code == 400, answer.text
    assert shared.lake.table("sales.totals").version == 1


@pytest.mark.parametrize(
    "requirement",
    [
        {"type": "assert-table-uuid", "uuid": "00000000-0000-0000-0000-000000000000"},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
        {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
        {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 1},
        {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 99},
        {"type": "assert-current-schema-id", "current-schema-id": 99},
        {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 99},
        {"type": "assert-default-spec-id", "default-spec-id": 99},
        {"type": "assert-default-sort-order-id", "default-sort-order-id": 99},
    ],
    ids=lambda r: str(r["type"]),
)
def test_requirements_that_do_not_hold_are_conflicts(
    shared: Service, requirement: dict[str, Any]
) -> None:
    update = {"action": "set-properties", "updates": {"a": "b"}}
    body = {"updates": [update], "requirements": [requirement]}

    answer = shared.as_("writer").post(TOTALS, json=body)

    assert answer.status_code == 409, answer.text
    assert answer.json()["error"]["message"].startswith("Requirement failed: ")
    assert shared.lake.table("sales.totals").version == 1


def _request(name: str, tx: Transaction) -> dict[str, Any]:
    request = CommitTableRequest(
        identifier=TableIdentifier(namespace=Namespace(["sales"]), name=name),
        requirements=tx._requirements,
        updates=tx._updates,
    )
    found: dict[str, Any] = orjson.loads(request.model_dump_json())
    return found


def test_rows_that_a_client_wrote_before_the_partitioning_changed_keep_their_spec(
    own: Service,
) -> None:
    made = own.lake.create("sales.parts", "n int64", format="iceberg")
    table = catalog_of(own, "writer").load_table("sales.parts")
    table.append(pa.table({"n": [1]}))
    late = staged(table, pa.table({"n": [2]}))
    with table.update_spec() as update:
        update.add_field("n", IdentityTransform(), "n_part")

    answer = own.as_("writer").post(f"{V1}/namespaces/sales/tables/parts", json=late)

    assert answer.status_code == 200
    assert made.to_arrow(where="n = 2")["n"].to_pylist() == [2]
    read = catalog_of(own).load_table("sales.parts").scan(row_filter="n >= 1").to_arrow()
    assert sorted(read["n"].to_pylist()) == [1, 2]
    assert own.lake.doctor().healthy
