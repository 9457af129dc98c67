"""Constraints, policies and vacuum hold for REST clients whose documents become the table's."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Transaction
from pyiceberg.types import LongType, StringType

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.requests import TableCommit
from lakeward.lake.rest_catalog import parse_commit
from lakeward.model import steps
from tests.behaviour.iceberg.strangers import Stranger
from tests.support.rest import requested

pytestmark = pytest.mark.local  # an S3 server's clock, by which vacuum goes, has whole seconds

Writes = Callable[[Transaction], object]


def _commit(lake: lw.Lake, stranger: Stranger, name: str, change: Writes) -> None:
    body = requested(stranger.table(name), change)
    lake.iceberg_catalog().commit([parse_commit(body)])


def _beside_a_property(change: Writes) -> Writes:
    def both(tx: Transaction) -> None:
        tx.set_properties({"owner": "me"})
        change(tx)

    return both


def _beside_a_column(change: Writes) -> Writes:
    def both(tx: Transaction) -> None:
        with tx.update_schema() as update:
            update.add_column("more", StringType())
        change(tx)

    return both


def _appends(**columns: list[Any]) -> Writes:
    return lambda tx: tx.append(pa.table(columns))


@pytest.mark.before_the_store
@pytest.mark.parametrize("beside", [_beside_a_property, _beside_a_column])
@pytest.mark.parametrize(
    "constraint",
    [
        lw.Unique("x"),
        lw.Check("x > 1", on_violation="quarantine"),
        lw.Check("x > 1", on_violation="warn"),
        "x > 1",
    ],
    ids=["unique", "quarantine", "warn", "check"],
)
def test_rows_beside_a_definition_are_refused_where_constraints_would_not_be_checked(
    lake: lw.Lake,
    stranger: Stranger,
    name: str,
    constraint: Any,
    beside: Callable[[Writes], Writes],
) -> None:
    table = lake.create(name, "x int64", format="iceberg", constraints={"c": constraint})
    table.append(pa.table({"x": [2]}))
    wrong = _appends(x=[2] if isinstance(constraint, lw.Unique) else [1])

    with pytest.raises(UnsupportedFeature, match="has constraints"):
        _commit(lake, stranger, name, beside(wrong))

    assert (table.version, table.to_arrow()["x"].to_pylist()) == (1, [2])


def test_both_sides_of_a_foreign_key_are_kept(
    lake: lw.Lake, stranger: Stranger, new_name: Callable[[], str]
) -> None:
    parent, child = new_name(), new_name()
    key = lw.ForeignKey("p", references=parent, key="id")
    above = lake.create(parent, "id int64", format="iceberg", constraints={"pk": lw.Unique("id")})
    below = lake.create(child, "p int64", format="iceberg", constraints={"fk": key})
    above.append(pa.table({"id": [1, 2]}))
    below.append(pa.table({"p": [1]}))

    with pytest.raises(UnsupportedFeature, match="has constraints"):
        _commit(lake, stranger, child, _beside_a_property(_appends(p=[99])))
    with pytest.raises(UnsupportedFeature, match="has constraints"):
        _commit(lake, stranger, parent, _beside_a_property(lambda tx: tx.delete("id = 1")))

    assert (above.count(), below.count()) == (2, 1)


def test_a_rollback_does_not_bring_back_rows_that_violate_a_newer_constraint(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, "x int64", format="iceberg")
    table.append(pa.table({"x": [1, 1]}))
    first = stranger.table(name).current_snapshot()
    assert first is not None
    table.overwrite(pa.table({"x": [1]}))
    table.alter().add_constraint("c", lw.Unique("x")).commit()

    with pytest.raises(UnsupportedFeature, match="has constraints"):
        lake.iceberg_catalog().commit([_rollback(name, first.snapshot_id)])

    assert table.to_arrow()["x"].to_pylist() == [1]


def test_a_constraint_of_a_policy_that_is_set_meanwhile_holds(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, "x int64", format="iceberg")
    table.append(pa.table({"x": [1]}))

    pattern = f"{name.partition('.')[0]}.*"
    rule = {"constraints": {"c": "x > 0"}}
    meanwhile = _at("iceberg.prepared", lambda: lake.set_policy(pattern, rule))
    with meanwhile, pytest.raises(UnsupportedFeature, match="has constraints"):
        _commit(lake, stranger, name, _beside_a_property(_appends(x=[-1])))

    assert table.to_arrow()["x"].to_pylist() == [1]


def _drops_x(tx: Transaction) -> None:
    with tx.update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("x")


def _renames_x(tx: Transaction) -> None:
    with tx.update_schema() as update:
        update.rename_column("x", "y")


def _replaces_x(tx: Transaction) -> None:
    _drops_x(tx)
    with tx.update_schema() as update:
        update.add_column("x", LongType())


@pytest.mark.before_the_store
@pytest.mark.parametrize("by", ["table", "policy", "policy set meanwhile"])
@pytest.mark.parametrize("change", [_drops_x, _renames_x, _replaces_x])
@pytest.mark.parametrize(
    "constraint",
    [lw.Unique("x"), lw.Check("x > 0", on_violation="warn"), "x > 0"],
    ids=["unique", "warn", "check"],
)
def test_columns_that_constraints_need_stay(
    lake: lw.Lake, stranger: Stranger, name: str, constraint: Any, change: Writes, by: str
) -> None:
    given = {"c": constraint}
    own = given if by == "table" else None
    table = lake.create(name, "id int64, x int64", format="iceberg", constraints=own)
    table.append(pa.table({"id": [1], "x": [2]}))
    if by == "policy":
        lake.set_policy(name, {"constraints": given})
    meanwhile: AbstractContextManager[None] = nullcontext()
    if by == "policy set meanwhile":
        meanwhile = _at("iceberg.prepared", lambda: lake.set_policy(name, {"constraints": given}))

    with meanwhile, pytest.raises(UnsupportedFeature, match="constraint c needs column x"):
        _commit(lake, stranger, name, change)

    table.append(pa.table({"id": [2], "x": [3]}))
    assert table.to_arrow(where="x > 0").num_rows == 2
    _commit(lake, stranger, name, _beside_a_column(lambda tx: tx.set_properties({"owner": "me"})))
    assert table.schema.names == ["id", "x", "more"]


def test_rows_beside_a_definition_fill_required_columns(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    # With rows, the column could not become required at all.
    table = lake.create(name, "x int64", format="iceberg")

    def require(tx: Transaction) -> None:
        tx.append(pa.table({"x": pa.array([None], pa.int64())}))
        with tx.update_schema(allow_incompatible_changes=True) as update:
            update.update_column("x", required=True)

    with pytest.raises(ConstraintViolation):
        _commit(lake, stranger, name, require)

    assert table.version == 0
    assert table.count() == 0


def test_rows_beside_a_definition_are_committed_where_they_satisfy_the_table(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, "x int64 not null", format="iceberg")
    table.append(pa.table({"x": [1]}))
    required = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    rows = pa.table({"x": [2]}, schema=required)

    _commit(lake, stranger, name, _beside_a_property(lambda tx: tx.append(rows)))

    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2]
    assert stranger.table(name).properties["owner"] == "me"
    assert lake.doctor().healthy


def test_a_rollback_to_a_vacuumed_snapshot_is_refused(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, "x int64", format="iceberg")
    table.append(pa.table({"x": [1]}))
    first = stranger.table(name).current_snapshot().snapshot_id
    table.overwrite(pa.table({"x": [2]}))
    second = stranger.table(name).current_snapshot().snapshot_id
    table.append(pa.table({"x": [3]}))
    table.vacuum(retention="0s", force=True)

    with pytest.raises(InvalidInput, match="vacuumed"):
        lake.iceberg_catalog().commit([_rollback(name, first)])

    assert table.version == 3
    assert sorted(table.to_arrow()["x"].to_pylist()) == [2, 3]
    lake.iceberg_catalog().commit([_rollback(name, second)])
    assert table.to_arrow()["x"].to_pylist() == [2]
    assert lake.doctor().healthy


def test_a_rollback_beside_a_vacuum_is_refused(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    table = lake.create(name, "x int64", format="iceberg")
    table.append(pa.table({"x": [1]}))
    first = stranger.table(name).current_snapshot().snapshot_id
    table.overwrite(pa.table({"x": [2]}))

    meanwhile = _at("iceberg.prepared", lambda: table.vacuum(retention="0s", force=True))
    with meanwhile, pytest.raises(InvalidInput, match="vacuumed"):
        lake.iceberg_catalog().commit([_rollback(name, first)])

    assert table.to_arrow()["x"].to_pylist() == [2]


@pytest.mark.parametrize("by", ["property", "policy"])
def test_rows_of_an_append_only_table_stay(
    lake: lw.Lake, stranger: Stranger, name: str, by: str
) -> None:
    own = {"lakeward.append-only": "true"} if by == "property" else {}
    table = lake.create(name, "x int64", format="iceberg", properties=own)
    if by == "policy":
        lake.set_policy(name, {"append_only": True})
    table.append(pa.table({"x": [1, 2]}))
    first = stranger.table(name).current_snapshot().snapshot_id

    def delete(tx: Transaction) -> None:
        tx.delete("x = 1")

    for change in (delete, _beside_a_property(delete), lambda tx: tx.delete("true")):
        with pytest.raises(UnsupportedFeature, match="append-only"):
            _commit(lake, stranger, name, change)
    _commit(lake, stranger, name, _appends(x=[3]))
    with pytest.raises(UnsupportedFeature, match="append-only"):
        lake.iceberg_catalog().commit([_rollback(name, first)])

    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2, 3]


def test_files_of_an_append_only_table_are_compacted_by_clients(
    lake: lw.Lake, stranger: Stranger, name: str
) -> None:
    append_only = {"lakeward.append-only": "true"}
    table = lake.create(name, "x int64", format="iceberg", properties=append_only)
    for number in range(2):
        table.append(pa.table({"x": [number]}))
    rows = stranger.rows(name)
    body = requested(stranger.table(name), lambda tx: tx.overwrite(rows))
    added = [u["snapshot"] for u in body["updates"] if u["action"] == "add-snapshot"]
    for snapshot in added:
        snapshot["summary"]["operation"] = "replace"

    lake.iceberg_catalog().commit([parse_commit(body)])

    assert sorted(table.to_arrow()["x"].to_pylist()) == [0, 1]
    assert table.version == 3


_BAD_VALUES = (
    {"write.metadata.previous-versions-max": "x"},
    {"write.target-file-size-bytes": "0"},
    {"write.parquet.compression-codec": "bogus"},
)


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    "properties",
    [
        {"lakeward.unique.k": "xx"},
        {"lakeward.constraint.bad": "(("},
        {"lakeward.retention": "nonsense"},
        *_BAD_VALUES,
    ],
    ids=lambda given: next(iter(given)),
)
def test_tables_are_not_created_with_properties_that_the_lake_cannot_use(
    lake: lw.Lake, name: str, properties: dict[str, str]
) -> None:
    namespace, _, table = name.partition(".")
    field = {"id": 1, "name": "x", "required": False, "type": "long"}
    schema = {"type": "struct", "schema-id": 0, "fields": [field]}
    body = {"name": table, "schema": schema, "properties": properties}

    with pytest.raises(InvalidInput, match=next(iter(properties))):
        lake.iceberg_catalog().create(namespace, body)

    assert lake.tables() == []
    fine = {"comment": "of a client", "write.parquet.compression-codec": "zstd"}
    lake.iceberg_catalog().create(namespace, {**body, "properties": fine})
    lake.table(name).append(pa.table({"x": [1]}))
    assert lake.table(name).count() == 1


@pytest.mark.before_the_store
@pytest.mark.parametrize("properties", _BAD_VALUES, ids=lambda given: next(iter(given)))
def test_properties_that_the_lake_cannot_use_are_not_set(
    lake: lw.Lake, stranger: Stranger, name: str, properties: dict[str, str]
) -> None:
    table = lake.create(name, "x int64", format="iceberg")

    with pytest.raises(InvalidInput, match=next(iter(properties))):
        _commit(lake, stranger, name, lambda tx: tx.set_properties(properties))

    table.append(pa.table({"x": [1]}))
    assert table.count() == 1


@contextmanager
def _at(step: str, do: Callable[[], object]) -> Generator[None]:
    """Do something once when a step is reached."""
    left = [do]

    def observe(reached: str) -> None:
        if reached == step and left:
            left.pop()()

    steps.observe(observe)
    try:
        yield
    finally:
        steps.observe(None)


def _rollback(name: str, snapshot: int) -> TableCommit:
    namespace, _, table = name.partition(".")
    update = {
        "action": "set-snapshot-ref",
        "ref-name": "main",
        "type": "branch",
        "snapshot-id": snapshot,
    }
    body = {"requirements": [], "updates": [update]}
    return parse_commit(body, ((namespace,), table))
