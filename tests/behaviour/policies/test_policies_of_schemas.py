"""Policies of schemas: what writes and `alter` may change, refused with nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import Conflict, PolicyViolation, SchemaMismatch
from tests.behaviour.lakes import append, ids, unchanged

_WIDER = pa.table({"id": [2], "extra": ["x"]})


def _appended(lake: lw.Lake, name: str, data: Any = _WIDER, mode: str | None = None) -> None:
    with lake.transaction() as tx:
        tx.append(name, data, schema_mode=mode)


def test_appends_merge_columns_because_the_policy_says_so(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    with unchanged(shared_lake), pytest.raises(SchemaMismatch):
        _appended(shared_lake, name)

    shared_lake.set_policy(name, {"schema_mode": "merge"})
    _appended(shared_lake, name)

    table = shared_lake.table(name)
    assert table.schema.names == ["id", "extra"]
    assert ids(shared_lake, name) == [2]


def test_an_overwrite_replaces_columns_because_the_policy_says_so(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64", "old": "string"})
    shared_lake.set_policy(name, {"schema_mode": "overwrite"})

    with shared_lake.transaction() as tx:
        tx.overwrite(name, _WIDER)

    assert shared_lake.table(name).schema.names == ["id", "extra"]


@pytest.mark.parametrize(("said", "asked"), [("strict", "merge"), ("merge", "overwrite")])
def test_a_write_that_asks_for_more_than_the_policy_is_refused(
    shared_lake: lw.Lake, name: str, said: str, asked: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    shared_lake.set_policy(name, {"schema_mode": said})

    with (
        unchanged(shared_lake),
        pytest.raises(PolicyViolation, match=f"policy of {name}") as caught,
        shared_lake.transaction() as tx,
    ):
        tx.overwrite(name, _WIDER, schema_mode=asked)
    assert (caught.value.pattern, caught.value.field) == (name, "schema_mode")


def test_a_merge_that_evolves_is_refused_by_a_strict_policy(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    merge = (
        f"MERGE {{}} INTO {name} t USING (SELECT CAST(2 AS BIGINT) AS id, 'q' AS k) s"
        " ON t.id = s.id WHEN NOT MATCHED THEN INSERT {}"
    )
    shared_lake.set_policy(name, {"schema_mode": "strict"})

    with (
        unchanged(shared_lake),
        pytest.raises(PolicyViolation, match=f"policy of {name} says 'strict'") as caught,
        shared_lake.transaction() as tx,
    ):
        tx.sql(merge.format("WITH SCHEMA EVOLUTION", "*"))
    assert (caught.value.pattern, caught.value.field) == (name, "schema_mode")

    with shared_lake.transaction() as tx:
        tx.sql(merge.format("", "(id) VALUES (s.id)"))
    assert (shared_lake.table(name).schema.names, ids(shared_lake, name)) == (["id"], [2])

    shared_lake.set_policy(name, {"schema_mode": "merge"})
    with shared_lake.transaction() as tx:
        tx.sql(merge.format("WITH SCHEMA EVOLUTION", "*"))
    assert shared_lake.table(name).schema.names == ["id", "k"]


_CHANGES: dict[str, Callable[[Any], Any]] = {
    "add_column": lambda alter: alter.add_column("c", "string"),
    "drop_column": lambda alter: alter.drop_column("note"),
    "rename_column": lambda alter: alter.rename_column("note", "text"),
    "move_column": lambda alter: alter.move_column("note", first=True),
    "change_type": lambda alter: alter.change_type("n", "int64"),
    "set_nullable": lambda alter: alter.set_nullable("must"),
    "set_not_null": lambda alter: alter.set_not_null("id"),
    "set_comment": lambda alter: alter.set_comment("note", "why"),
    "set_property": lambda alter: alter.set_property("owner", "me"),
    "add_constraint": lambda alter: alter.add_constraint("positive", "id > 0"),
    "drop_constraint": lambda alter: alter.drop_constraint("known"),
    "set_default": lambda alter: alter.set_default("note", "'x'"),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_only_the_changes_that_a_policy_allows_are_made(
    shared_lake: lw.Lake, name: str, change: str
) -> None:
    columns = pa.schema(
        [
            pa.field("id", pa.int64()),
            pa.field("n", pa.int32()),
            pa.field("note", pa.string()),
            pa.field("must", pa.int64(), nullable=False),
        ]
    )
    table = shared_lake.create(name, columns, constraints={"known": "id < 100"})
    others = [one for one in _CHANGES if one != change]
    shared_lake.set_policy(name, {"allowed_evolutions": others})

    with unchanged(shared_lake), pytest.raises(PolicyViolation, match="allow") as caught:
        _CHANGES[change](table.alter()).commit()
    assert (caught.value.pattern, caught.value.field) == (name, "allowed_evolutions")

    shared_lake.set_policy(name, {"allowed_evolutions": [change]})
    _CHANGES[change](table.alter()).commit()
    assert table.version == 1


@pytest.mark.parametrize(
    ("form", "change", "ask"),
    [
        ("delta", "enable", lambda a: a.enable("change_data_feed")),
        ("iceberg", "enable", lambda a: a.enable("row_lineage")),
        ("iceberg", "add_partition_field", lambda a: a.add_partition_field("bucket(4, id)")),
        ("iceberg", "drop_partition_field", lambda a: a.drop_partition_field("p")),
    ],
)
@pytest.mark.formats("delta")
def test_features_and_partition_fields_need_the_evolution(
    shared_lake: lw.Lake, name: str, form: str, change: str, ask: Callable[[Any], Any]
) -> None:
    table = shared_lake.create(name, "id int64, p string", format=form, partition_by=["p"])
    shared_lake.set_policy(name, {"allowed_evolutions": ["add_column"]})
    with unchanged(shared_lake), pytest.raises(PolicyViolation, match="allow"):
        ask(table.alter()).commit()
    shared_lake.set_policy(name, {"allowed_evolutions": [change]})
    ask(table.alter()).commit()
    assert table.version == 1


def test_a_merge_of_columns_needs_the_evolution_too(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    shared_lake.set_policy(name, {"schema_mode": "merge", "allowed_evolutions": ["change_type"]})

    with unchanged(shared_lake), pytest.raises(PolicyViolation, match="add column extra"):
        _appended(shared_lake, name)
    append(shared_lake, name, {"id": [1]})


@pytest.mark.formats("delta")
def test_a_policy_without_column_mapping_keeps_it_off(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "note": "string"})
    shared_lake.set_policy(name, {"column_mapping": "none"})

    with unchanged(shared_lake), pytest.raises(PolicyViolation, match="column mapping"):
        table.alter().rename_column("note", "text").commit()


@pytest.mark.formats("delta")
def test_a_new_table_is_made_as_its_pattern_says(shared_lake: lw.Lake, name: str) -> None:
    said = lw.Policy(column_mapping="name", merge_on_read=True, change_data_feed=True)
    shared_lake.set_policy(name, said)

    table = shared_lake.create(name, {"id": "int64"})

    assert table.properties["delta.columnMapping.mode"] == "name"
    assert table.properties["delta.enableDeletionVectors"] == "true"
    assert table.properties["delta.enableChangeDataFeed"] == "true"
    assert "columnMapping" in table.definition.protocol["writerFeatures"]


def test_statistics_are_kept_of_the_columns_that_the_policy_names(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64", "n": "int64"})
    append(shared_lake, name, {"id": [1], "n": [1]})
    shared_lake.set_policy(name, {"stats_columns": ["n"]})
    append(shared_lake, name, {"id": [5], "n": [5]})

    stats = [f.file.stats for f in table.files()]
    known = [sorted(s.minimum) for s in stats if s is not None]
    assert sorted(known) == [[1, 2], [2]]
    assert len(table.files(where="n = 7")) == 0
    assert len(table.files(where="id = 7")) == 1
    assert table.to_arrow(where="id = 5").num_rows == 1
    assert [f for f in shared_lake.doctor(tables=[name]).findings if f.code == "statistics"] == []


def test_a_transaction_that_began_before_a_policy_does_not_slip_past_it(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    cases: list[tuple[dict[str, Any], Callable[[lw.Transaction], object], bool]] = [
        ({"constraints": {"positive": "id > 0"}}, lambda tx: tx.append(name, [{"id": -1}]), True),
        ({"constraints": {"one": {"unique": "id"}}}, lambda tx: tx.append(name, [{"id": 1}]), True),
        ({"compression": "zstd"}, lambda tx: tx.append(name, [{"id": 2}]), False),
        ({"allowed_evolutions": []}, lambda tx: tx.alter(name).add_column("c", "string"), True),
        ({"append_only": True}, lambda tx: tx.delete(name, where="id = 2"), True),
    ]
    for policy, change, is_refused in cases:
        shared_lake.set_policy(name, {})
        before = table.version
        tx = shared_lake.transaction()
        change(tx)
        shared_lake.set_policy(name, policy)
        if is_refused:
            with pytest.raises(Conflict, match="policy"):
                tx.commit()
            assert table.version == before
        else:
            tx.commit()
            assert table.version == before + 1


def test_run_makes_a_change_again_under_the_policy_that_was_set_meanwhile(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    tried: list[int] = []

    def change(tx: lw.Transaction) -> None:
        tx.append(name, [{"id": 1}])
        if not tried:
            shared_lake.set_policy(name, {"constraints": {"positive": "id > 0"}})
        tried.append(1)

    shared_lake.run(change)

    assert (len(tried), ids(shared_lake, name)) == (2, [1])


def test_locks_are_waited_for_as_long_as_the_policy_says(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    shared_lake.set_policy(name, {"lock_timeout_seconds": 0.0})
    with shared_lake.transaction() as holder, shared_lake.transaction() as tx:
        holder.lock(name)
        with pytest.raises(lw.errors.Locked):
            tx.lock(name)
