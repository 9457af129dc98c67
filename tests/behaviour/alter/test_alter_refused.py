"""Changes that would break a table are refused, with the column, the reason and what would work."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput, LakewardError, UnsupportedFeature
from lakeward.lake.altering import TableAlter
from tests.behaviour.lakes import unchanged
from tests.support.tables import table_of

pytestmark = pytest.mark.before_the_store

_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("price", pa.decimal128(10, 2)),
        ("note", pa.string()),
        ("part", pa.string()),
        ("address", pa.struct([("street", pa.string())])),
        ("tags", pa.list_(pa.string())),
        ("prices", pa.map_(pa.string(), pa.int32())),
    ]
)
_TABLE = (
    table_of(_SCHEMA)
    .partitioned("part")
    .options(constraints={"cheap": "price < 1000"})
    .rows(
        [
            {
                "id": 1,
                "price": Decimal(1),
                "note": None,
                "part": "a",
                "address": None,
                "tags": [],
                "prices": [],
            }
        ]
    )
)


@pytest.fixture(scope="module")
def refusing(shared_lake: lw.Lake, table_format: str) -> lw.Table:
    """A table that no test of this file changes."""
    return _TABLE.make(shared_lake, "refusing", format=table_format)


Ask = Callable[[TableAlter], Any]
_REFUSED: list[tuple[str, Ask, str, str]] = [
    ("drop required", lambda a: a.drop_column("id"), "it is required", "set_nullable('id')"),
    ("drop partition", lambda a: a.drop_column("part"), "partitioned by part", "Copy the table"),
    ("drop checked", lambda a: a.drop_column("price"), "check cheap", "drop_constraint('cheap')"),
    ("drop absent", lambda a: a.drop_column("notes"), "no column 'notes'", "Did you mean 'note'"),
    ("drop only part", lambda a: a.drop_column("address.street"), "the only one", "Add another"),
    ("drop element", lambda a: a.drop_column("tags.element"), "of a collection", "Change tags"),
    (
        "rename checked",
        lambda a: a.rename_column("price", "cost"),
        "check cheap",
        "Drop the constraint",
    ),
    (
        "rename taken",
        lambda a: a.rename_column("note", "part"),
        "taken by column 'part'",
        "another",
    ),
    (
        "rename with path",
        lambda a: a.rename_column("address.street", "address.road"),
        "stays in its struct",
        "rename_column('address.street', 'road')",
    ),
    ("rename by case", lambda a: a.rename_column("note", "ID"), "differs only by case", "another"),
    ("add taken", lambda a: a.add_column("Note", "string"), "only by case", "Choose another"),
    ("add part of list", lambda a: a.add_column("tags.x", "int64"), "gets no parts", "structs"),
    (
        "add required",
        lambda a: a.add_column("x", "int64", nullable=False),
        "existing rows have no value",
        "tx.update",
    ),
    ("add untyped", lambda a: a.add_column("x", "text8"), "not a type", "Types:"),
    ("add bad default", lambda a: a.add_column("x", "int64", default="'a'"), "int64", "literal"),
    ("add computed", lambda a: a.add_column("x", "int64", default="id"), "column id", "literal"),
    ("narrow", lambda a: a.change_type("id", "int32"), "not all of its values", "add a column"),
    ("narrow decimal", lambda a: a.change_type("price", "decimal(8,2)"), "values", "more digits"),
    ("retype text", lambda a: a.change_type("note", "int64"), "not all of its", "add a column"),
    ("move nowhere", lambda a: a.move_column("note"), "move to", "after="),
    (
        "move after absent",
        lambda a: a.move_column("note", after="x"),
        "no column 'x'",
        "may follow",
    ),
    ("nulls in keys", lambda a: a.set_nullable("prices.key"), "never null", ""),
    ("not null", lambda a: a.set_not_null("note"), "1 value is missing", ""),
    ("check", lambda a: a.add_constraint("noted", "note <> ''"), "1 row violates", "Nothing was"),
    ("check taken", lambda a: a.add_constraint("Cheap", "id > 0"), "already", "Drop it first"),
    ("check unparsable", lambda a: a.add_constraint("x", "nope > 0"), "nope", ""),
    ("check absent", lambda a: a.drop_constraint("dear"), "no constraint 'dear'", "It has cheap"),
    ("property", lambda a: a.set_property("lakeward.retry.attempt", "1"), "no table", "attempts?"),
    ("value", lambda a: a.set_property("lakeward.retry.attempts", "x"), "attempts", ""),
    ("unset", lambda a: a.unset_property("owner"), "no property 'owner'", ""),
    ("feature", lambda a: a.enable("variant"), "cannot enable variant", "enable"),
]


@pytest.mark.parametrize(
    ("ask", "what", "hint"), [r[1:] for r in _REFUSED], ids=[r[0] for r in _REFUSED]
)
def test_a_refused_change_says_why_and_changes_nothing(
    refusing: lw.Table, ask: Ask, what: str, hint: str
) -> None:
    table = refusing
    before = table.definition
    with pytest.raises(InvalidInput) as caught:
        ask(table.alter().set_comment("id", "not kept")).commit()
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")
    assert table.definition == before
    assert table.version == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("delta.columnMapping.mode", "id"),
        ("delta.constraints.x", "id > 0"),
        ("delta.feature.x", "supported"),
        ("delta.nosuch", "1"),
        ("delta.enableChangeDataFeed", "maybe"),
        ("delta.checkpointInterval", "often"),
        ("delta.logRetentionDuration", "soon"),
        ("delta.deletedFileRetentionDuration", "soon"),
        ("delta.setTransactionRetentionDuration", "interval 1"),
        ("delta.isolationLevel", "high"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingNumIndexedCols", "many"),
        ("delta.randomPrefixLength", "0"),
        ("delta.randomizeFilePrefixes", "maybe"),
        ("delta.enableExpiredLogCleanup", "1"),
        ("delta.checkpoint.writeStatsAsJson", "yes"),
        ("lakeward.snapshots", "5"),
        ("lakeward.snapshot-age", "1d"),
        ("write.format.default", "orc"),
    ],
)
@pytest.mark.formats("delta")
def test_properties_that_mean_nothing_are_refused(
    shared_lake: lw.Lake, new_name: Callable[[], str], key: str, value: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name())
    with pytest.raises(InvalidInput) as caught:
        table.alter().set_property(key, value).commit()
    assert caught.value.facts["property"] == key
    assert table.version == 0


@pytest.mark.formats("delta")
def test_properties_that_delta_defines_are_set(shared_lake: lw.Lake, name: str) -> None:
    table = table_of(id="int64").make(shared_lake, name)
    wanted = {
        "delta.logRetentionDuration": "interval 2 weeks 3 days",
        "delta.setTransactionRetentionDuration": "interval 7 days",
        "delta.isolationLevel": "WriteSerializable",
        "delta.dataSkippingNumIndexedCols": "-1",
        "delta.randomPrefixLength": "3",
        "delta.enableExpiredLogCleanup": "false",
    }
    change = table.alter()
    for key, value in wanted.items():
        change.set_property(key, value)
    change.commit()
    assert wanted.items() <= table.properties.items()


@pytest.mark.formats("iceberg")
def test_limits_of_snapshots_are_set_and_checked(shared_lake: lw.Lake, name: str) -> None:
    table = table_of(id="int64").make(shared_lake, name, format="iceberg")
    wanted = {"lakeward.snapshots": "5", "lakeward.snapshot-age": "1d"}
    change = table.alter()
    for key, value in wanted.items():
        change.set_property(key, value)
    change.commit()
    assert wanted.items() <= table.properties.items()
    for key in wanted:
        with pytest.raises(InvalidInput, match=key):
            table.alter().set_property(key, "few").commit()
    assert table.version == 1


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    "key", ["delta.nosuch", "delta.appendOnly", "lakeward.columns", "format-version", "comment"]
)
def test_properties_that_are_not_iceberg_s_are_refused(
    shared_lake: lw.Lake, new_name: Callable[[], str], key: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name(), format="iceberg")
    with pytest.raises(InvalidInput) as refused:
        table.alter().set_property(key, "1").commit()
    assert table.version == 0
    if key == "delta.nosuch":
        assert "is for Delta tables, and has no meaning for Iceberg tables" in refused.value.what


@pytest.mark.formats("delta")
def test_a_delta_table_keeps_its_partitioning_and_its_generated_columns(
    shared_lake: lw.Lake, new_name: Callable[[], str]
) -> None:
    table = (
        table_of(id="int64", ts="timestamp").partitioned("day(ts)").make(shared_lake, new_name())
    )
    asked: list[Ask] = [
        lambda a: a.add_partition_field("id"),
        lambda a: a.drop_partition_field("day(ts)"),
        lambda a: a.rename_column("ts", "moment"),
        lambda a: a.drop_column("ts"),
        lambda a: a.drop_column("ts_day"),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput):
            ask(table.alter()).commit()
    table.alter().set_comment("ts_day", "computed").add_column("x", "int64").commit()
    with shared_lake.transaction() as tx:
        tx.append(table.name, [{"id": 1, "ts": None}])
    assert table.schema.names == ["id", "ts", "ts_day", "x"]


def test_nothing_asked_for_and_nothing_changed_commit_nothing(
    shared_lake: lw.Lake, new_name: Callable[[], str], table_format: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name(), format=table_format)
    with pytest.raises(InvalidInput, match="Nothing was asked for"):
        table.alter().commit()
    assert table.alter().set_nullable("id").commit().versions == {}
    assert table.version == 0


def test_a_required_column_can_be_added_to_an_empty_table(
    shared_lake: lw.Lake, new_name: Callable[[], str], table_format: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name(), format=table_format)
    table.alter().add_column("x", "int64", nullable=False).commit()
    with pytest.raises(LakewardError), shared_lake.transaction() as tx:
        tx.append(table.name, [{"id": 1}])
    with pytest.raises(ConstraintViolation), shared_lake.transaction() as tx:
        tx.append(table.name, [{"id": 1, "x": None}])
    with shared_lake.transaction() as tx:
        tx.append(table.name, [{"id": 1, "x": 1}])


def test_a_table_whose_last_writer_wins_is_not_altered_meanwhile(
    shared_lake: lw.Lake, new_name: Callable[[], str], table_format: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name(), format=table_format)
    with (
        pytest.raises(UnsupportedFeature),
        shared_lake.transaction(on_conflict=lw.LastWriterWins(key="id")) as tx,
    ):
        tx.alter(table.name).add_column("x", "int64")


def test_keys_follow_a_rename_and_hold_their_columns(
    shared_lake: lw.Lake, new_name: Callable[[], str], table_format: str
) -> None:
    parent, child = new_name(), new_name()
    table_of(id="int64", name="string").options(
        constraints={"own": lw.Unique("id"), "named": lw.Unique("name")}
    ).make(shared_lake, parent, format=table_format)
    made = (
        table_of(ref="int64", n="int32")
        .options(constraints={"up": lw.ForeignKey("ref", references=parent, key="id")})
        .make(shared_lake, child, format=table_format)
    )
    above = shared_lake.table(parent)
    asked: list[Ask] = [
        lambda a: a.drop_column("id"),
        lambda a: a.rename_column("id", "key"),
        lambda a: a.drop_constraint("own"),
        lambda a: a.drop_column("name"),
        lambda a: a.unset_property("lakeward.unique.own"),
    ]
    for ask in asked:
        with pytest.raises(InvalidInput):
            ask(above.alter()).commit()
    with pytest.raises(InvalidInput, match="in the key up"):
        made.alter().drop_column("ref").commit()
    above.alter().rename_column("name", "label").commit()
    made.alter().rename_column("ref", "parent").commit()
    with shared_lake.transaction() as tx:
        tx.append(parent, [{"id": 1, "label": "a"}])
        tx.append(child, [{"parent": 1, "n": 1}])
    with pytest.raises(ConstraintViolation):
        shared_lake.table(parent).append([{"id": 2, "label": "a"}])
    with pytest.raises(ConstraintViolation):
        made.append([{"parent": 2, "n": 1}])
    made.alter().drop_constraint("up").drop_column("parent").commit()
    above.alter().drop_constraint("own").drop_column("id").commit()
    assert above.schema.names == ["label"]


@pytest.mark.formats("iceberg")
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("write.target-file-size-byte", "write.target-file-size-bytes"),
        ("write.target_file_size_bytes", "write.target-file-size-bytes"),
        ("write.parquet.compresion-codec", "write.parquet.compression-codec"),
        ("Commit.Retry.Num-Retries", "commit.retry.num-retries"),
        ("history.expire.max-snapshot-age", "history.expire.max-snapshot-age-ms"),
        ("gc.enable", "gc.enabled"),
        ("write.metadata.metric.column.id", "write.metadata.metrics.column.<column>"),
    ],
)
@pytest.mark.before_the_store
def test_misspelled_properties_of_iceberg_are_refused(
    shared_lake: lw.Lake, new_name: Callable[[], str], key: str, meant: str
) -> None:
    table = table_of(id="int64").make(shared_lake, new_name(), format="iceberg")
    with unchanged(shared_lake), pytest.raises(InvalidInput) as caught:
        table.alter().set_property(key, "1").commit()
    assert caught.value.hint == f"Did you mean {meant}?"
    with unchanged(shared_lake), pytest.raises(InvalidInput):
        shared_lake.create(new_name(), "id int64", format="iceberg", properties={key: "1"})


@pytest.mark.formats("iceberg")
def test_other_properties_of_iceberg_tables_are_free(shared_lake: lw.Lake, name: str) -> None:
    table = table_of(id="int64").make(shared_lake, name, format="iceberg")
    wanted = {
        "owner": "me",
        "write.mine": "1",
        "team.write.size": "2",
        "write.metadata.metrics.column.id": "full",
        "write.parquet.page-row-limit": "100",
        "history.expire.min-snapshots-to-keep": "3",
    }
    change = table.alter()
    for key, value in wanted.items():
        change.set_property(key, value)
    change.commit()
    assert wanted.items() <= table.properties.items()


def test_if_exists_and_if_not_exists_are_obeyed(lake: lw.Lake) -> None:
    lake.create("t", "id int64, note string")
    table = lake.table("t")
    done = (
        table.alter()
        .sql("ADD COLUMN IF NOT EXISTS note string")
        .sql("DROP COLUMN IF EXISTS nosuch")
        .sql("DROP CONSTRAINT IF EXISTS nosuch")
        .commit()
    )
    assert done.versions == {}
    with lake.transaction() as tx:
        tx.alter("t").sql("ADD COLUMN IF NOT EXISTS b int").sql("ADD COLUMN IF NOT EXISTS b int")
    assert lake.table("t").schema.names == ["id", "note", "b"]
    for clause in ("ADD COLUMN note string", "DROP COLUMN nosuch", "DROP CONSTRAINT nosuch"):
        with unchanged(lake), pytest.raises(InvalidInput):
            table.alter().sql(clause).commit()
