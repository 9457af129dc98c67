"""Policies of patterns hold for the rows and features with which a table begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput
from lakeward.model.commit import Head
from lakeward.write.tables import clone, create
from tests.behaviour.lakes import append, ids, unchanged

_RULES = {"positive": "id > 0", "one": lw.Unique("id")}


@pytest.fixture
def space(new_name: Callable[[], str]) -> str:
    """A namespace that no other test has."""
    return new_name().replace(".", "_")


@pytest.mark.parametrize(("rows", "broken"), [([1, -1], "positive"), ([1, 1], "one")])
def test_rows_of_a_table_that_the_transaction_creates_are_checked(
    shared_lake: lw.Lake, space: str, table_format: str, rows: list[int], broken: str
) -> None:
    shared_lake.set_policy(f"{space}.*", {"constraints": _RULES})

    def create(values: list[int]) -> None:
        with shared_lake.transaction() as tx:
            tx.create(f"{space}.t", {"id": "int64"}, format=table_format)
            tx.append(f"{space}.t", {"id": values})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        create(rows)

    assert caught.value.constraint == broken
    create([1, 2])
    assert ids(shared_lake, f"{space}.t") == [1, 2]


def test_a_table_that_sql_creates_is_checked_too(shared_lake: lw.Lake, space: str) -> None:
    shared_lake.set_policy(f"{space}.*", {"constraints": _RULES})

    with pytest.raises(ConstraintViolation), shared_lake.transaction() as tx:
        tx.sql(f"CREATE TABLE {space}.t AS SELECT -1 AS id")

    assert f"{space}.t" not in [table.name for table in shared_lake.tables()]


def test_rows_that_a_new_table_may_not_have_go_to_quarantine(
    shared_lake: lw.Lake, space: str, table_format: str
) -> None:
    rule = lw.Check("id > 0", on_violation="quarantine")
    shared_lake.set_policy(f"{space}.*", {"constraints": {"positive": rule}})

    with shared_lake.transaction() as tx:
        tx.create(f"{space}.t", {"id": "int64"}, format=table_format)
        tx.append(f"{space}.t", {"id": [1, -1]})

    assert ids(shared_lake, f"{space}.t") == [1]
    assert ids(shared_lake, f"{space}.t__quarantine") == [-1]


def test_a_policy_that_is_set_before_a_new_table_is_committed_holds_for_it(
    shared_lake: lw.Lake, space: str, table_format: str
) -> None:
    tx = shared_lake.transaction()
    tx.create(f"{space}.t", {"id": "int64"}, format=table_format)
    tx.append(f"{space}.t", {"id": [-1]})
    shared_lake.set_policy(f"{space}.*", {"constraints": _RULES})

    with pytest.raises(Conflict, match="policy"):
        tx.commit()


@pytest.mark.before_the_store
def test_a_key_that_rows_violate_refuses_a_policy(shared_lake: lw.Lake, space: str) -> None:
    shared_lake.create(f"{space}.t", {"id": "int64"})
    append(shared_lake, f"{space}.t", {"id": [1, 2]})
    append(shared_lake, f"{space}.t", {"id": [2, 3]})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation, match="one"):
        shared_lake.set_policy(f"{space}.*", {"constraints": {"one": lw.Unique("id")}})

    tolerant = {"constraints": {"one": lw.Unique("id", on_violation="warn")}}
    shared_lake.set_policy(f"{space}.*", tolerant)


@pytest.mark.before_the_store
@pytest.mark.formats("delta")
@pytest.mark.local
def test_clones_and_migrated_files_are_checked(
    shared_lake: lw.Lake, space: str, new_name: Callable[[], str], tmp_path: Path
) -> None:
    shared_lake.set_policy(f"{space}.*", {"constraints": _RULES})
    source = new_name()
    shared_lake.create(source, {"id": "int64"})
    append(shared_lake, source, {"id": [1, 2]})
    append(shared_lake, source, {"id": [2]})
    pq.write_table(pa.table({"id": [-1]}), tmp_path / "a.parquet")

    with pytest.raises(ConstraintViolation, match="one"):
        shared_lake.clone(source, f"{space}.clone")
    for mode in ("copy", "in-place"):
        with pytest.raises(ConstraintViolation, match="positive"):
            shared_lake.migrate(str(tmp_path), f"{space}.{mode[:2]}", format="delta", mode=mode)

    shared_lake.clone(source, f"{space}.clone", version=1)
    assert ids(shared_lake, f"{space}.clone") == [1, 2]


def test_a_policy_that_is_set_while_a_table_is_cloned_holds_for_the_clone(
    shared_lake: lw.Lake, space: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})
    append(shared_lake, name, {"id": [-1]})

    def make(*args: Any, **options: Any) -> Head:
        monkeypatch.undo()
        shared_lake.set_policy(f"{space}.*", {"constraints": _RULES})
        return create.make(*args, **options)

    monkeypatch.setattr(clone, "make", make)
    with pytest.raises(ConstraintViolation, match="positive"):
        shared_lake.clone(name, f"{space}.clone")
    assert f"{space}.clone" not in [table.name for table in shared_lake.tables()]

    monkeypatch.setattr(clone, "make", make)
    shared_lake.clone(name, f"{space}.clone", version=shared_lake.table(name).version - 1)
    assert ids(shared_lake, f"{space}.clone") == [1]


@pytest.mark.before_the_store
@pytest.mark.formats("delta")
def test_new_tables_get_the_features_of_their_pattern(shared_lake: lw.Lake, space: str) -> None:
    asked = ["row_tracking", "v2_checkpoint", "type_widening", "row_lineage"]
    shared_lake.set_policy(f"{space}.*", {"features": asked, "merge_on_read": True})
    shared_lake.create(f"{space}.a", {"id": "int64"})
    with shared_lake.transaction() as tx:
        tx.create(f"{space}.b", {"id": "int64"})
        tx.sql(f"CREATE TABLE {space}.c (id bigint)")
    iceberg = shared_lake.create(f"{space}.d", {"id": "int64"}, format="iceberg")

    wanted = {"rowTracking", "v2Checkpoint", "typeWidening", "deletionVectors"}
    for name in "abc":
        protocol = shared_lake.table(f"{space}.{name}").definition.protocol
        assert wanted <= set(protocol["writerFeatures"]), name
    assert iceberg.definition.protocol["format-version"] == 3
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="row_lineage"):
        shared_lake.create(f"{space}.e", {"id": "int64"}, policy={"features": ["row_lineage"]})


def test_rows_that_come_back_are_checked(shared_lake: lw.Lake, space: str) -> None:
    table = shared_lake.create(f"{space}.t", {"id": "int64"})
    append(shared_lake, f"{space}.t", {"id": [-1, 2]})
    table.delete(where="id < 0")
    table.alter().add_column("more", "int64").commit()
    gone = shared_lake.create(f"{space}.gone", {"id": "int64"})
    append(shared_lake, gone.name, {"id": [-1]})
    shared_lake.drop(gone.name)
    shared_lake.set_policy(f"{space}.*", {"constraints": {"positive": "id > 0"}})

    for bring_back in (
        lambda: table.restore(version=1),
        lambda: shared_lake.undo(table.history()[1].transaction_id),
        lambda: shared_lake.undrop(gone.name),
    ):
        with pytest.raises(ConstraintViolation, match="positive"):
            bring_back()
    shared_lake.set_policy(f"{space}.*", {"constraints": {"more": "more > 0 OR more IS NULL"}})
    with pytest.raises(InvalidInput, match="more"):
        table.restore(version=1)

    assert (table.version, ids(shared_lake, table.name)) == (3, [2])
    shared_lake.set_policy(f"{space}.*", None)
    table.restore(version=1)
    shared_lake.undrop(gone.name)
    assert ids(shared_lake, table.name) == [-1, 2]
    assert ids(shared_lake, gone.name) == [-1]
