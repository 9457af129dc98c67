"""Columns added, renamed, dropped, moved and widened, together with rows and with other tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from tests.behaviour.lakes import append, delete, ids
from tests.support.iceberg import stranger_arrow
from tests.support.tables import table_of

_NESTED = table_of(
    pa.schema(
        [
            ("id", pa.int32()),
            ("amount", pa.float32()),
            ("note", pa.string()),
            ("address", pa.struct([("street", pa.string()), ("city", pa.string())])),
            ("items", pa.list_(pa.struct([("price", pa.int32())]))),
        ]
    )
)


def _row(number: int, **more: Any) -> dict[str, Any]:
    address = {"street": f"street {number}", "city": "Basel"}
    items = [{"price": number}]
    whole = {"id": number, "amount": number / 2, "note": None, "address": address, "items": items}
    return {**whole, **more}


@pytest.fixture
def made(lake: lw.Lake, name: str, table_format: str) -> lw.Table:
    """Two rows of nested columns."""
    return _NESTED.rows([_row(1), _row(2)]).make(lake, name, format=table_format)


def test_a_new_column_is_null_in_older_rows_and_has_its_default_in_new_ones(
    lake: lw.Lake, made: lw.Table
) -> None:
    with lake.transaction(message="orders get a currency") as tx:
        tx.alter(made.name).add_column(
            "currency", "string", default="'EUR'", after="amount", comment="ISO 4217"
        )
        tx.append(made.name, [_row(3), _row(4)])
        assert tx.read(made.name, columns=["id", "currency"]).num_rows == 4
    append(lake, made.name, [_row(5, currency="USD")])

    assert made.schema.names == ["id", "amount", "currency", "note", "address", "items"]
    assert made.schema.field("currency").comment == "ISO 4217"
    found = made.to_arrow(columns=["id", "currency"]).to_pylist()
    assert {r["id"]: r["currency"] for r in found} == {
        1: None,
        2: None,
        3: "EUR",
        4: "EUR",
        5: "USD",
    }
    assert made.to_arrow(where="currency = 'EUR'").num_rows == 2
    assert made.to_arrow(where="currency IS NULL").num_rows == 2
    assert made.history(limit=2)[1].parameters["changes"] == [
        "add column currency string default 'EUR' after amount"
    ]


def test_writers_that_do_not_know_a_new_column_go_on(lake: lw.Lake, made: lw.Table) -> None:
    made.alter().add_column("seen", "timestamp").add_column("address.zip", "string").commit()
    append(lake, made.name, [_row(3)])
    with lake.transaction() as tx:
        tx.merge(made.name, [_row(3, note="known"), _row(4)], on="id")
    found = made.to_arrow(where="id >= 3").to_pylist()
    assert [r["seen"] for r in found] == [None, None]
    assert [r["address"]["zip"] for r in found] == [None, None]


def test_older_versions_keep_their_schema(lake: lw.Lake, made: lw.Table) -> None:
    before = made.to_arrow()
    made.alter(message="second").add_column("a", "int64", first=True).commit()
    made.alter().set_property("owner", "me").commit()
    made.alter(message="third").add_column("b", "int64").commit()

    assert made.at(version=1).to_arrow().equals(before)
    assert made.at(version=1).schema.names == before.column_names
    assert made.at(version=3).schema.names == ["a", *before.column_names]
    found = made.schemas()
    assert [(s.number, s.since, s.until, s.message) for s in found] == [
        (0, 0, 1, None),
        (1, 2, 3, "second"),
        (2, 4, None, "third"),
    ]
    assert found[2].schema == made.schema
    assert found[2].transaction_id == made.history()[0].transaction_id
    assert found[2].actor


def test_parts_of_columns_are_added_moved_and_described_by_path(
    lake: lw.Lake, made: lw.Table
) -> None:
    made.alter().add_column("address.zip", "string", after="street").add_column(
        "items.element.count", "int32", first=True
    ).move_column("address.city", first=True).set_comment("address.zip", "postal code").commit()
    append(lake, made.name, [_row(3, address={"street": "s", "city": "Bern", "zip": "3000"})])
    assert str(made.schema.field("address").type) == (
        "struct<city: string, street: string, zip: string>"
    )
    found = made.to_arrow(columns=["id", "address", "items"]).to_pylist()
    assert found[0] == {
        "id": 1,
        "address": {"city": "Basel", "street": "street 1", "zip": None},
        "items": [{"count": None, "price": 1}],
    }
    assert found[2]["address"] == {"city": "Bern", "street": "s", "zip": "3000"}


def test_renames_and_drops_rewrite_nothing(lake: lw.Lake, made: lw.Table) -> None:
    paths = {f.path for f in made.files()}
    ids = {f.name: f.id for f in made.schema}
    made.alter().rename_column("amount", "total").drop_column("note").rename_column(
        "address.street", "road"
    ).commit()
    append(
        lake,
        made.name,
        [{"id": 3, "total": 7.5, "address": {"road": "r", "city": None}, "items": []}],
    )
    assert paths < {f.path for f in made.files()}
    assert made.schema.field("total").id == ids["amount"]
    found = made.to_arrow().to_pylist()
    assert [r["total"] for r in found] == [0.5, 1.0, 7.5]
    assert [r["address"]["road"] for r in found] == ["street 1", "street 2", "r"]
    assert "note" not in found[0]
    assert made.at(version=1).to_arrow().column_names == list(ids)
    assert made.to_arrow(where="total > 5").num_rows == 1
    assert made.to_arrow(where="address.road = 'street 1'").num_rows == 1


def test_a_name_that_comes_back_is_another_column(lake: lw.Lake, made: lw.Table) -> None:
    made.alter().set_comment("note", "old").commit()
    append(lake, made.name, [_row(3, note="old")])
    first = made.schema.field("note").id
    made.alter().drop_column("note").commit()
    made.alter().add_column("note", "string").commit()
    append(lake, made.name, [_row(4, note="new")])
    assert made.schema.field("note").id > first
    found = made.to_arrow(columns=["id", "note"]).to_pylist()
    assert {r["id"]: r["note"] for r in found} == {1: None, 2: None, 3: None, 4: "new"}


def test_names_can_change_places(lake: lw.Lake, made: lw.Table) -> None:
    made.alter().rename_column("id", "x").rename_column("note", "id").rename_column(
        "x", "note"
    ).commit()
    found = made.to_arrow(columns=["note", "id"]).to_pylist()
    assert found == [{"note": 1, "id": None}, {"note": 2, "id": None}]
    delete(lake, made.name, "note = 1")
    assert made.to_arrow(columns=["note"]).to_pylist() == [{"note": 2}]


def test_wider_types_hold_the_old_values_and_new_ones(lake: lw.Lake, made: lw.Table) -> None:
    made.alter().change_type("id", "int64").change_type("amount", "double").change_type(
        "items.element.price", "int64"
    ).commit()
    append(lake, made.name, [_row(2**40)])
    found = made.to_arrow().to_pylist()
    assert [r["id"] for r in found] == [1, 2, 2**40]
    assert found[2]["items"] == [{"price": 2**40}]
    assert made.to_arrow(where=f"id = {2**40}").num_rows == 1
    assert made.to_arrow(where="id = 2").num_rows == 1
    assert str(made.at(version=1).schema.field("id").type) == "int32"


def test_an_alteration_commits_with_rows_of_other_tables(
    lake: lw.Lake, made: lw.Table, table_format: str
) -> None:
    other = f"{made.name}_other"
    table_of(id="int64").make(lake, other, format=table_format)
    with lake.transaction() as tx:
        tx.append(other, [{"id": 1}])
        tx.alter(made.name).add_column("x", "int64")
        tx.update(made.name, set={"x": "id * 2"})
        tx.alter(made.name).set_not_null("x")
        versions = tx.commit().versions
    assert versions == {made.name: 2, other: 1}
    assert [r["x"] for r in made.to_arrow().to_pylist()] == [2, 4]
    assert not made.schema.field("x").nullable


def test_a_rolled_back_alteration_leaves_no_trace(lake: lw.Lake, made: lw.Table) -> None:
    before = made.definition
    begun = lake.transaction()
    begun.alter(made.name).add_column("x", "int64")
    begun.rollback()
    with lake.transaction() as tx:
        tx.alter(made.name).set_comment("id", None)
    assert made.definition == before
    assert made.version == 1


def test_rows_staged_before_fit_or_the_alteration_is_refused(lake: lw.Lake, made: lw.Table) -> None:
    with lake.transaction() as tx:
        tx.append(made.name, [_row(3, note="kept")])
        tx.alter(made.name).add_column("x", "int64").drop_column("amount").rename_column(
            "note", "remark"
        ).change_type("id", "int64")
        assert tx.read(made.name, columns=["remark"]).to_pylist()[2] == {"remark": "kept"}
    found = made.to_arrow(columns=["id", "x", "remark"], where="id = 3").to_pylist()
    assert found == [{"id": 3, "x": None, "remark": "kept"}]


@pytest.mark.formats("iceberg")
def test_partition_fields_change_for_new_files_alone(lake: lw.Lake, made: lw.Table) -> None:
    made.alter().add_partition_field("bucket(4, id)").commit()
    append(lake, made.name, [_row(3)])
    made.alter().add_partition_field("note").drop_partition_field("bucket(4, id)").commit()
    append(lake, made.name, [_row(4, note="n")])
    made.alter().drop_partition_field("note").add_partition_field("bucket(4, id)").commit()
    append(lake, made.name, [_row(5)])
    assert made.partition_by == ["bucket(4, id)"]
    assert [dict(f.file.partition) for f in made.files()] == [
        {},
        {-1000: 3},
        {-1001: "n"},
        {-1000: 3},
    ]
    assert sorted(made.to_arrow(columns=["id"])["id"].to_pylist()) == [1, 2, 3, 4, 5]
    for number in range(1, 6):
        assert made.to_arrow(where=f"id = {number}").num_rows == 1
    delete(lake, made.name, "id IN (1, 3, 4)")
    assert sorted(made.to_arrow(columns=["id"])["id"].to_pylist()) == [2, 5]
    with pytest.raises(InvalidInput, match="already"):
        made.alter().add_partition_field("bucket(4, id)").commit()
    made.alter().drop_partition_field("bucket(4, id)").add_partition_field("bucket(8, id)").commit()
    append(lake, made.name, [_row(6)])
    assert made.partition_by == ["bucket(8, id)"]
    assert sorted(made.to_arrow(columns=["id"])["id"].to_pylist()) == [2, 5, 6]
    assert sorted(stranger_arrow(lake, made.name)["id"].to_pylist()) == [2, 5, 6]


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("write.target-file-size-bytes", "128mb"),
        ("write.metadata.previous-versions-max", "5"),
        ("write.parquet.compression-codec", "zstd"),
        ("lakeward.snapshots", "5"),
        ("lakeward.snapshot-age", "1d"),
        ("lakeward.retention", "5d"),
    ],
)
def test_a_property_that_is_set_can_be_unset(
    shared_lake: lw.Lake, name: str, key: str, value: str
) -> None:
    table = shared_lake.create(name, "id int64", format="iceberg", properties={key: value})
    assert key in table.definition.properties

    table.alter().unset_property(key).commit()

    assert key not in table.definition.properties
    append(shared_lake, name, {"id": [1]})
    assert ids(shared_lake, name) == [1]


_NAMED = {
    "delta": {"delta.dataSkippingStatsColumns": "`n`, id,s.a", "lakeward.zorder": "id, n"},
    "iceberg": {
        "write.parquet.bloom-filter-enabled.column.n": "true",
        "write.metadata.metrics.column.s.a": "full",
        "lakeward.zorder": "id, n",
    },
}
_NAMED_AFTER = {
    "delta": {"delta.dataSkippingStatsColumns": "m, id,s.b", "lakeward.zorder": "id, m"},
    "iceberg": {
        "write.parquet.bloom-filter-enabled.column.m": "true",
        "write.metadata.metrics.column.s.b": "full",
        "lakeward.zorder": "id, m",
    },
}


def test_properties_that_name_columns_follow_a_rename(
    shared_lake: lw.Lake, name: str, table_format: str
) -> None:
    schema = "id int64, n int64, s struct<a: int64>"
    table = shared_lake.create(name, schema, properties=_NAMED[table_format])
    change = table.alter().rename_column("n", "m").rename_column("s.a", "b")
    change.add_column("n", "int64").commit()
    kept = {k: v for k, v in table.properties.items() if k in _NAMED_AFTER[table_format]}
    assert kept == _NAMED_AFTER[table_format]
    assert not _NAMED[table_format].keys() - _NAMED_AFTER[table_format] & table.properties.keys()


def test_statistics_and_filters_follow_a_rename(shared_lake: lw.Lake, name: str) -> None:
    policy = {"stats_columns": ["n"], "bloom_filters": ["n"]}
    table = shared_lake.create(name, "id int64, n int64", policy=policy)
    append(shared_lake, name, {"id": [1], "n": [1]})
    table.alter().rename_column("n", "m").commit()
    append(shared_lake, name, {"id": [5], "m": [5]})

    assert shared_lake.policy(name).policy.bloom_filters == ("m",)
    assert [sorted(f.file.stats.minimum) for f in table.files() if f.file.stats] == [[2], [2]]
    assert len(table.files(where="m = 7")) == 0
    assert table.to_arrow(where="m = 5")["id"].to_pylist() == [5]
