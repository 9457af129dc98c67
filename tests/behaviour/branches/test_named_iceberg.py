"""Named branches of Iceberg tables: pyiceberg works on them by a catalog of the branch's own."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import (
    Conflict,
    ConstraintViolation,
    CorruptTable,
    InvalidInput,
    PolicyViolation,
    UnsupportedFeature,
)
from lakeward.log import catalog
from lakeward.log.statement import Statement
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, delete, ids
from tests.support.iceberg import stranger_catalog
from tests.support.inside import context_of
from tests.support.invariants import check_lake
from tests.support.tables import numbered, table_of

pytestmark = pytest.mark.formats("iceberg")

_TABLE = table_of(id="int64", v="string").options(format="iceberg").rows(numbered(0, 1, 2))


def _open(lake: lw.Lake, table: Any) -> Any:
    """A branch's table as pyiceberg loads it."""
    found = stranger_catalog(lake, table.catalog)
    return found.load_table(catalog.identifier(TableName.parse(table.name)))


def test_pyiceberg_works_on_a_branch_and_both_formats_are_published_as_one(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    _TABLE.make(lake, "delta", format="delta")
    branch = lake.branch("audit", tables=["s.ice", "delta"])
    ice = _open(lake, branch.table("s.ice"))
    ice.append(numbered(7))
    ice.delete("id = 0")
    write_deltalake(branch.table("delta").location, numbered(8), mode="append")
    assert ids(lake, "s.ice") == ids(lake, "delta") == [0, 1, 2]
    seen = branch.table("s.ice").to_arrow(columns=["id"], where="id > 1")
    assert sorted(seen.column("id").to_pylist()) == [2, 7]

    result = branch.publish()

    assert result.versions == {"s.ice": 2, "delta": 2}
    assert ids(lake, "s.ice") == [1, 2, 7]
    assert ids(lake, "delta") == [0, 1, 2, 8]
    assert lake.table("s.ice").history()[0].operation == "PUBLISH BRANCH"
    check_lake(lake, ["s.ice", "delta"])
    assert lake.doctor().findings == ()
    with context_of(lake).database.read() as session:
        assert catalog.branch_pointer(session, "audit", TableName.parse("s.ice")) is None


def test_a_branch_is_found_again_and_dropped_without_a_trace(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake, "s.ice")
    before = sorted(Path(lake.table("s.ice").location).rglob("*"))
    branch = lake.branch("audit", tables=["s.ice"])
    _open(lake, branch.table("s.ice")).append(numbered(7))
    lake.close()
    again = make_lake()

    (found,) = again.branches()
    assert (found.table("s.ice").base_version, found.table("s.ice").version) == (1, 1)
    (told,) = found.diff()
    assert (told.rows_added, told.rows_removed, told.conflict) == (1, 0, None)
    found.drop()

    assert sorted(Path(again.table("s.ice").location).rglob("*")) == before
    assert again.branches() == []
    assert again.doctor().findings == ()


def test_others_who_changed_the_same_rows_keep_a_branch_out(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    branch = lake.branch("audit", tables=["s.ice"])
    _open(lake, branch.table("s.ice")).delete("id = 1")
    delete(lake, "s.ice", "id = 0")

    assert branch.diff()[0].conflict is not None
    with pytest.raises(Conflict):
        branch.publish()

    assert ids(lake, "s.ice") == [1, 2]
    assert [b.name for b in lake.branches()] == ["audit"]


def test_rows_that_a_check_refuses_are_not_published(lake: lw.Lake) -> None:
    lake.create("ice", {"id": "int64"}, constraints={"small": "id < 10"})
    append(lake, "ice", {"id": [1]})
    branch = lake.branch("audit", tables=["ice"])
    _open(lake, branch.table("ice")).append(pa.table({"id": [5000]}))

    with pytest.raises(ConstraintViolation, match="small"):
        branch.publish()

    assert ids(lake, "ice") == [1]


def test_columns_that_a_branch_changes_are_published(lake: lw.Lake) -> None:
    from pyiceberg.types import LongType, StringType

    table = lake.create(
        "s.ice",
        "id int64 not null, v string, n int32, gone double, s struct<a: int64>",
        constraints={"key": lw.Unique("v")},
    )
    append(lake, "s.ice", [{"id": 1, "v": "a", "n": 1, "gone": 1.0, "s": {"a": 1}}])
    branch = lake.branch("audit", tables=["s.ice"])
    ice = _open(lake, branch.table("s.ice"))
    with ice.update_schema() as update:
        update.add_column("w", LongType(), doc="new")
        update.add_column(("s", "b"), StringType())
        update.rename_column("v", "word")
        update.update_column("n", LongType())
        update.delete_column("gone")
        update.make_column_optional("id")
    ice = _open(lake, branch.table("s.ice"))
    new = {"id": [None], "word": ["b"], "n": [2**40], "s": [{"a": 2, "b": "x"}], "w": [5]}
    ice.append(pa.Table.from_pydict(new, schema=ice.schema().as_arrow()))
    assert branch.table("s.ice").schema.names == ["id", "word", "n", "s", "w"]
    assert branch.table("s.ice").to_arrow(where="w = 5")["word"].to_pylist() == ["b"]
    assert table.schema.names == ["id", "v", "n", "gone", "s"]
    (told,) = branch.diff()
    assert (told.is_evolved, told.rows_added, told.conflict) == (True, 1, None)
    append(lake, "s.ice", [{"id": 3, "v": "c", "n": 3, "gone": 3.0, "s": {"a": 3}}])

    assert branch.publish().versions == {"s.ice": 3}

    wanted: list[dict[str, Any]] = [
        {"id": 1, "word": "a", "n": 1, "s": {"a": 1, "b": None}, "w": None},
        {"id": 3, "word": "c", "n": 3, "s": {"a": 3, "b": None}, "w": None},
        {"id": None, "word": "b", "n": 2**40, "s": {"a": 2, "b": "x"}, "w": 5},
    ]
    assert sorted(table.to_arrow().to_pylist(), key=lambda r: r["word"]) == sorted(
        wanted, key=lambda r: str(r["word"])
    )
    assert table.at(version=2).schema.names == ["id", "v", "n", "gone", "s"]
    found = stranger_catalog(lake, "lakeward").load_table(("s", "ice")).scan().to_arrow()
    assert sorted(found.to_pylist(), key=str) == sorted(wanted, key=str)
    assert table.constraints == {"key": lw.Unique("word")}
    with pytest.raises(ConstraintViolation, match="key"):
        append(lake, "s.ice", [{"id": 9, "word": "b", "n": 1, "s": {"a": 1, "b": None}, "w": 1}])
    append(lake, "s.ice", [{"id": 9, "word": "d", "n": 1, "s": {"a": 1, "b": "y"}}])
    assert table.count() == 4
    assert lake.doctor().findings == ()


def test_columns_of_a_branch_follow_the_rules_of_alter(lake: lw.Lake) -> None:
    from pyiceberg.types import LongType

    checked = {"small": "v < 10"}
    lake.create("s.ice", "id int64 not null, v int64, w int64", constraints=checked)
    append(lake, "s.ice", [{"id": 1, "v": 1, "w": None}])
    refused: list[tuple[Callable[[Any], object], str]] = [
        (lambda u: u.delete_column("id"), "required"),
        (lambda u: u.delete_column("v"), "small"),
        (lambda u: u.rename_column("v", "z"), "small"),
        (lambda u: u.add_column("x", LongType(), required=True), "required"),
        (lambda u: u._set_column_requirement("w", required=True), "w of s.ice is required"),
    ]
    for change, why in refused:
        branch = lake.branch("audit", tables=["s.ice"])
        ice = _open(lake, branch.table("s.ice"))
        with ice.update_schema(allow_incompatible_changes=True) as update:
            change(update)
        with pytest.raises((InvalidInput, ConstraintViolation), match=why):
            branch.publish()
        branch.drop()
    lake.set_policy("s.ice", {"allowed_evolutions": ["drop_column"]})
    branch = lake.branch("audit", tables=["s.ice"])
    with _open(lake, branch.table("s.ice")).update_schema() as update:
        update.add_column("x", LongType())
    with pytest.raises(PolicyViolation, match="add"):
        branch.publish()
    assert lake.table("s.ice").version == 1
    assert lake.table("s.ice").schema.names == ["id", "v", "w"]


def test_columns_of_a_branch_conflict_with_what_others_did(lake: lw.Lake) -> None:
    from pyiceberg.types import LongType

    table = lake.create("s.ice", "id int64, v int64")
    append(lake, "s.ice", [{"id": 1, "v": 1}])
    branch = lake.branch("audit", tables=["s.ice"])
    with _open(lake, branch.table("s.ice")).update_schema() as update:
        update.add_column("x", LongType())
    required = lake.branch("required", tables=["s.ice"])
    ice = _open(lake, required.table("s.ice"))
    with ice.update_schema(allow_incompatible_changes=True) as update:
        update._set_column_requirement("v", required=True)
    append(lake, "s.ice", [{"id": 2, "v": None}])
    with pytest.raises(Conflict):
        required.publish()
    table.alter().add_column("y", "string").commit()
    (told,) = branch.diff()
    assert told.conflict is not None
    with pytest.raises(Conflict):
        branch.publish()
    assert table.schema.names == ["id", "v", "y"]


def test_other_definitions_do_not_change_on_a_branch(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    branch = lake.branch("audit", tables=["s.ice"])
    with _open(lake, branch.table("s.ice")).transaction() as tx:
        tx.set_properties(mine="1")

    with pytest.raises(UnsupportedFeature, match="properties"):
        branch.publish()


@pytest.mark.local
def test_a_column_with_the_id_of_a_dropped_one_is_not_published(lake: lw.Lake) -> None:
    table = lake.create("s.ice", "id int64, secret string")
    append(lake, "s.ice", [{"id": 1, "secret": "x"}])
    table.alter().drop_column("secret").commit()
    branch = lake.branch("audit", tables=["s.ice"])
    ice = _open(lake, branch.table("s.ice"))
    place = Path(ice.metadata_location.removeprefix("file://"))
    body = orjson.loads(place.read_bytes())
    (current,) = [s for s in body["schemas"] if s["schema-id"] == body["current-schema-id"]]
    again = {"id": 2, "name": "back", "type": "string", "required": False}
    number = max(s["schema-id"] for s in body["schemas"]) + 1
    fields = [*current["fields"], again]
    body["schemas"].append({**current, "schema-id": number, "fields": fields})
    body["current-schema-id"] = number
    forged = place.with_name(f"00001-{uuid.uuid4()}.metadata.json")
    forged.write_bytes(orjson.dumps(body))
    text = "UPDATE iceberg_tables SET metadata_location = :new WHERE catalog_name = 'branch_audit'"
    with context_of(lake).database.write() as session:
        session.run(Statement(text), {"new": f"file://{forged}"})

    with pytest.raises(UnsupportedFeature, match="id of another"):
        branch.publish()


def test_a_branch_that_was_never_finished_says_so(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    lake.branch("audit", tables=["s.ice"])
    with context_of(lake).database.write() as session:
        session.run(Statement("DELETE FROM iceberg_tables WHERE catalog_name = 'branch_audit'"))
    lake.branch("audit")
    with context_of(lake).database.write() as session:
        session.run(Statement("DELETE FROM iceberg_tables WHERE catalog_name = 'branch_audit'"))
    append(lake, "s.ice", numbered(3))

    with pytest.raises(CorruptTable, match="never finished"):
        lake.branch("audit")
