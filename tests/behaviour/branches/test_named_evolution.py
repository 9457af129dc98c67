"""Named branches on which others changed the definition: published by the rules of `tx.alter`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import InvalidInput
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


def _retype(name: str, **new: Any) -> Callable[[dict[str, Any], dict[str, str]], None]:
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


def test_what_alter_does_is_published(tmp_path: Path) -> None:
    with _lake(tmp_path) as lake:
        branch = lake.branch("work", tables=["t"])
        rows = pa.table({"id": [2], "n": [3], "note": ["x"], "more": [1.5]})
        write_deltalake(branch.table("t").location, rows, mode="append", schema_mode="merge")
        branch.publish()
        assert lake.table("t").schema.names == ["id", "n", "note", "more"]
        assert lake.table("t").count() == 2
