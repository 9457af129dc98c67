"""After each kind of change of a table, others read what we read, for all its versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.write.alter.builder import Alter
from tests.behaviour.samples import exact_rows
from tests.interop.readers import DeltaRs, DuckDb, Polars, Reader, as_ours
from tests.support.iceberg import stranger_arrow

_SCHEMA: Final = pa.schema(
    [
        ("id", pa.int32()),
        ("amount", pa.float32()),
        ("note", pa.string()),
        ("address", pa.struct([("street", pa.string()), ("city", pa.string())])),
        ("items", pa.list_(pa.struct([("price", pa.int32())]))),
    ]
)
_CHANGES: Final[dict[str, Callable[[Alter], Any]]] = {
    "add": lambda a: a.add_column("currency", "string", default="'EUR'", after="amount"),
    "add a part": lambda a: a.add_column("address.zip", "string", first=True),
    "comment": lambda a: a.set_comment("id", "key").set_property("owner", "me"),
    "check": lambda a: a.add_constraint("positive", "id > 0").set_not_null("id"),
    "move": lambda a: a.move_column("note", first=True),
    "rename": lambda a: a.rename_column("amount", "total").rename_column("address.street", "road"),
    "drop": lambda a: a.drop_column("note").drop_column("address.city"),
    "loosen": lambda a: (
        a.drop_constraint("positive")
        .set_nullable("id")
        .unset_property("owner")
        .set_default("currency", "'USD'")
    ),
    "come back": lambda a: a.add_column("note", "int64").add_column("items.element.n", "int64"),
}
_FEATURES: Final[dict[str, Callable[[Alter], Any]]] = {
    "feed and vectors": lambda a: a.enable("change_data_feed").enable("deletion_vectors"),
    "ids": lambda a: a.enable("row_tracking"),
    "checkpoints": lambda a: a.enable("v2_checkpoint"),
}
_WIDER: Final[dict[str, Callable[[Alter], Any]]] = {
    "widen": lambda a: a.change_type("id", "int64").change_type("items.element.price", "int64"),
    "widen a float": lambda a: a.change_type("total", "double"),
}


def _altered(
    lake: lw.Lake, name: str, changes: dict[str, Callable[[Alter], Any]], **given: Any
) -> lw.Table:
    """A table with a row written before and after each change."""
    table = lake.create(name, _SCHEMA, **given)
    table.append([_row(table, 1)])
    for number, ask in enumerate(changes.values()):
        with lake.transaction() as tx:
            ask(tx.alter(name))
        table.append([_row(table, 2 + number)])
    return table


def _row(table: lw.Table, number: int) -> dict[str, Any]:
    """A row of whatever columns the table has."""
    return {f.name: _value(f.type, number) for f in table.schema.to_arrow() if f.name != "currency"}


def _value(kind: pa.DataType, number: int) -> Any:
    if pa.types.is_struct(kind):
        return {f.name: _value(f.type, number) for f in kind}
    if pa.types.is_list(kind):
        return [_value(kind.value_type, number)]
    return f"text {number}" if pa.types.is_string(kind) else number


@pytest.fixture(scope="module")
def altered(own_lake: lw.Lake) -> lw.Table:
    """A Delta table after all changes but those of types."""
    return _altered(own_lake, "altered", {**_CHANGES, **_FEATURES})


@pytest.fixture(scope="module")
def widened(own_lake: lw.Lake) -> lw.Table:
    """A Delta table after changes of types, too."""
    return altered_in_delta(own_lake, "widened")


def test_strangers_read_an_altered_delta_table(stranger: Reader, altered: lw.Table) -> None:
    for version in range(1, altered.version + 1):
        if isinstance(stranger, Polars) and _is_mapped(altered, version):
            # Polars 1 refuses tables with mapped columns.
            break
        _agree(stranger, altered, version)


def test_strangers_read_a_widened_delta_table(stranger: Reader, widened: lw.Table) -> None:
    if isinstance(stranger, DeltaRs | Polars):
        pytest.skip("delta-rs 1.6 reads no table with the feature typeWidening")
    for version in range(1, widened.version + 1):
        _agree(stranger, widened, version)


@pytest.fixture(scope="module")
def altered_iceberg(own_lake: lw.Lake) -> lw.Table:
    """An Iceberg table after all changes."""
    return altered_in_iceberg(own_lake, "altered_iceberg")


def altered_in_iceberg(lake: lw.Lake, name: str) -> lw.Table:
    """Make an Iceberg table, and alter it in every way."""
    table = _altered(lake, name, {**_CHANGES, **_WIDER}, format="iceberg")
    table.alter().add_partition_field("bucket(4, id)").commit()
    table.append([_row(table, 100)])
    table.alter().drop_partition_field("bucket(4, id)").add_partition_field(
        "bucket(8, id)"
    ).commit()
    table.append([_row(table, 101)])
    with lake.transaction() as tx:
        tx.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT id, total, address FROM {name}")
    table.append([_row(table, 102)])
    return table


def altered_in_delta(lake: lw.Lake, name: str) -> lw.Table:
    """Make a Delta table, and alter it in every way."""
    table = _altered(lake, name, {**_CHANGES, **_FEATURES, **_WIDER})
    with lake.transaction() as tx:
        tx.sql(f"CREATE OR REPLACE TABLE {name} AS SELECT id, total, address FROM {name}")
    table.append([_row(table, 102)])
    return table


def test_pyiceberg_reads_an_altered_iceberg_table(
    own_lake: lw.Lake, altered_iceberg: lw.Table
) -> None:
    table = altered_iceberg
    for version in range(1, table.version + 1):
        snapshot = table.at(version=version)
        rows = stranger_arrow(own_lake, "altered_iceberg", snapshot.snapshot_id)
        ours = snapshot.to_arrow()
        assert exact_rows(as_ours(rows, ours.schema)) == exact_rows(ours), version


@pytest.mark.peers
def test_duckdb_reads_an_altered_iceberg_table(altered_iceberg: lw.Table, duckdb: DuckDb) -> None:
    table = altered_iceberg
    for version in range(1, table.version + 1):
        snapshot = table.at(version=version)
        rows = duckdb.iceberg_rows(str(table.metadata_location), snapshot.snapshot_id or 0)
        ours = snapshot.to_arrow()
        assert exact_rows(as_ours(rows, ours.schema)) == exact_rows(ours), version


def _is_mapped(table: lw.Table, version: int) -> bool:
    return "delta.columnMapping.mode" in table.at(version=version).definition.properties


def _agree(stranger: Reader, table: lw.Table, version: int) -> None:
    ours = table.at(version=version).to_arrow()
    theirs = stranger.rows(table.location, version=version)
    assert exact_rows(as_ours(theirs, ours.schema)) == exact_rows(ours), version
