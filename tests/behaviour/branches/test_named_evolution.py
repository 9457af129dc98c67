"""Named branches on which others changed the definition: published by the rules of `tx.alter`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput
from tests.support.s3 import on_disk


def _lake(directory: Path) -> lw.Lake:
    lake = lw.open(directory / "lake")
    lake.create("t", "id int64 not null, n int64, note string")
    lake.table("t").append([{"id": 1, "n": 2**40, "note": None}])
    return lake


def _redefined(place: str, change: Callable[[dict[str, Any], dict[str, str]], None]) -> None:
    """A commit on a branch, as another engine makes it, that changes the table's metadata."""
    log = on_disk(place) / "_delta_log"
    lines = [orjson.loads(line) for line in (log / f"{0:020d}.json").read_bytes().splitlines()]
    metadata = next(line["metaData"] for line in lines if "metaData" in line)
    schema = orjson.loads(metadata["schemaString"])
    change(schema, metadata["configuration"])
    metadata["schemaString"] = orjson.dumps(schema).decode()
    info = {"commitInfo": {"timestamp": 1, "operation": "CHANGE", "operationParameters": {}}}
    data = b"\n".join(map(orjson.dumps, (info, {"metaData": metadata})))
    (log / f"{1:020d}.json").write_bytes(data)


def _drop(name: str) -> Callable[[dict[str, Any], dict[str, str]], None]:
    def change(schema: dict[str, Any], _: dict[str, str]) -> None:
        schema["fields"] = [f for f in schema["fields"] if f["name"] != name]

    return change


def _retype(name: str, /, **new: Any) -> Callable[[dict[str, Any], dict[str, str]], None]:
    def change(schema: dict[str, Any], _: dict[str, str]) -> None:
        next(f for f in schema["fields"] if f["name"] == name).update(new)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_drop("id"), "required"),
        (_retype("note", nullable=False), "note"),
        (lambda _, properties: properties.update({"delta.nosuch": "1"}), "nosuch"),
    ],
    ids=["a required column dropped", "required with nulls", "unknown property"],
)
def test_what_alter_refuses_is_not_published(tmp_path: Path, change: Any, said: str) -> None:
    with _lake(tmp_path) as lake:
        branch = lake.branch("work", tables=["t"])
        _redefined(branch.table("t").location, change)
        with pytest.raises(InvalidInput, match=said):
            branch.publish()
        assert lake.table("t").version == 1
        assert lake.table("t").schema.names == ["id", "n", "note"]


def test_rows_that_others_add_meanwhile_are_a_conflict_where_rows_matter(tmp_path: Path) -> None:
    with _lake(tmp_path) as lake:
        branch = lake.branch("work", tables=["t"])
        _redefined(branch.table("t").location, _retype("n", nullable=False))
        lake.table("t").append([{"id": 2, "n": None, "note": None}])
        with pytest.raises(Conflict):
            branch.publish()
        assert lake.table("t").version == 2


def test_keys_follow_columns_that_are_renamed(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        mapping = {"delta.columnMapping.mode": "name"}
        key = {"key": lw.Unique("n")}
        table = lake.create("t", "id int64, n int64", properties=mapping, constraints=key)
        table.append([{"id": 1, "n": 1}])
        branch = lake.branch("work", tables=["t"])
        _redefined(branch.table("t").location, _retype("n", name="number"))
        branch.publish()
        assert table.constraints == {"key": lw.Unique("number")}
        with pytest.raises(ConstraintViolation):
            table.append([{"id": 2, "number": 1}])


def test_what_alter_does_is_published(tmp_path: Path) -> None:
    with _lake(tmp_path) as lake:
        branch = lake.branch("work", tables=["t"])
        rows = pa.table({"id": [2], "n": [3], "note": ["x"], "more": [1.5]})
        write_deltalake(branch.table("t").location, rows, mode="append", schema_mode="merge")
        branch.publish()
        assert lake.table("t").schema.names == ["id", "n", "note", "more"]
        assert lake.table("t").count() == 2


def _added(*columns: tuple[str, str, str]) -> Callable[[dict[str, Any], dict[str, str]], None]:
    def change(schema: dict[str, Any], _: dict[str, str]) -> None:
        for name, kind, default in columns:
            metadata = {"CURRENT_DEFAULT": default}
            schema["fields"].append(
                {"name": name, "type": kind, "nullable": True, "metadata": metadata}
            )

    return change


def test_columns_with_defaults_are_published(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        table = lake.create("t", "id int64, kind string default 'x'")
        branch = lake.branch("work", tables=["t"])
        new = (
            ("currency", "string", "'it''s'"),
            ("amount", "integer", "-7"),
            ("day", "date", "DATE '2026-01-31'"),
            ("price", "decimal(5,2)", "1.50"),
        )
        _redefined(branch.table("t").location, _added(*new))
        branch.publish()
        table.append([{"id": 1}])
        (row,) = table.to_arrow().to_pylist()
        assert row == {
            "id": 1,
            "kind": "x",
            "currency": "it's",
            "amount": -7,
            "day": date(2026, 1, 31),
            "price": Decimal("1.50"),
        }


@pytest.mark.parametrize("inside", [False, True], ids=["columns", "members of a struct"])
def test_names_that_changed_places_are_published(tmp_path: Path, inside: bool) -> None:
    def exchange(schema: dict[str, Any], _: dict[str, str]) -> None:
        fields = schema["fields"][0]["type"]["fields"] if inside else schema["fields"][1:]
        # In a circle, and one column gets a name that another one had.
        for field, name in zip(fields, ("b", "c", "A", "d_2"), strict=True):
            field["name"] = name

    with lw.open(tmp_path / "lake") as lake:
        mapping = {"delta.columnMapping.mode": "name"}
        members = "a int64, b int64, c int64, d int64"
        columns = "s struct<a: int64, b: int64, c: int64, d: int64>"
        table = lake.create("t", f"{columns}, {members}", properties=mapping)
        values = {"a": 1, "b": 2, "c": 3, "d": 4}
        table.append([{"s": values, **values}])
        branch = lake.branch("work", tables=["t"])
        _redefined(branch.table("t").location, exchange)
        branch.publish()
        (row,) = table.to_arrow().to_pylist()
        found = row["s"] if inside else {n: v for n, v in row.items() if n != "s"}
        assert found == {"b": 1, "c": 2, "A": 3, "d_2": 4}
