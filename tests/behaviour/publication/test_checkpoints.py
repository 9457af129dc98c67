"""Checkpoints: the state at a version, the same as replaying everything before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from tests.behaviour.lakes import append, delete, log_files, overwrite
from tests.behaviour.samples import everything
from tests.support.s3 import on_disk

pytestmark = pytest.mark.formats("delta")


def _checkpoints(table: lw.Table) -> list[Path]:
    return sorted((on_disk(table.location) / "_delta_log").glob("*.checkpoint.parquet"))


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    table = pq.read_table(path)
    return {
        name: [row for row in table[name].to_pylist() if row is not None]
        for name in table.column_names
    }


def _replayed(lake: lw.Lake, name: str, version: int) -> dict[str, dict[str, Any]]:
    """What the published commits up to a version amount to."""
    state: dict[str, dict[str, Any]] = {"add": {}, "remove": {}, "txn": {}}
    for path in log_files(lake, name)[: version + 1]:
        for line in map(orjson.loads, path.read_bytes().splitlines()):
            ((kind, action),) = line.items()
            if kind == "add":
                state["add"][action["path"]] = action
                state["remove"].pop(action["path"], None)
            elif kind == "remove":
                state["remove"][action["path"]] = action
                del state["add"][action["path"]]
            elif kind == "txn":
                state["txn"][action["appId"]] = action
            elif kind in ("protocol", "metaData"):
                state[kind] = action
    return state


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    data = everything("delta").slice(1)  # an empty text cannot name a partition
    table = shared_lake.create(
        name,
        data.schema,
        partition_by=["string"],
        policy={"checkpoint_interval": 3},
        constraints={"numbered": "id >= 0"},
        comment="with a comment",
    )
    append(shared_lake, name, data)
    delete(shared_lake, name, "id = 2")
    with shared_lake.transaction() as tx:
        tx.append(name, data.slice(0, 2))
        tx.record(name, "one", 1)
        tx.record(name, "two", 2)
    overwrite(shared_lake, name, data.slice(2, 2), where="string = 'A' OR string = 'null'")
    with shared_lake.transaction() as tx:
        tx.record(name, "one", 7)
    append(shared_lake, name, data)
    append(shared_lake, name, data)
    shared_lake.publish()
    return table


def test_checkpoints_are_written_by_policy(table: lw.Table) -> None:
    assert [p.name[:20] for p in _checkpoints(table)] == [f"{v:020d}" for v in (3, 6)]
    pointer = orjson.loads((on_disk(table.location) / "_delta_log/_last_checkpoint").read_bytes())
    assert pointer["version"] == 6
    assert pointer["sizeInBytes"] == _checkpoints(table)[-1].stat().st_size
    assert pointer["size"] == pq.read_metadata(_checkpoints(table)[-1]).num_rows


def test_a_checkpoint_holds_what_replay_gives(shared_lake: lw.Lake, table: lw.Table) -> None:
    for path in _checkpoints(table):
        version = int(path.name[:20])
        found, expected = _read(path), _replayed(shared_lake, table.name, version)
        assert {a["path"] for a in found["add"]} == set(expected["add"])
        assert {a["path"] for a in found["remove"]} == set(expected["remove"])
        for add in found["add"]:
            original = expected["add"][add["path"]]
            assert add["stats"] == original["stats"]
            assert dict(add["partitionValues"]) == original["partitionValues"]
            assert (add["size"], add["modificationTime"]) == (
                original["size"],
                original["modificationTime"],
            )
        assert {t["appId"]: t["version"] for t in found["txn"]} == {
            app: action["version"] for app, action in expected["txn"].items()
        }
        (metadata,) = found["metaData"]
        assert metadata["schemaString"] == expected["metaData"]["schemaString"]
        assert metadata["partitionColumns"] == expected["metaData"]["partitionColumns"]
        assert dict(metadata["configuration"]) == expected["metaData"]["configuration"]
        (protocol,) = found["protocol"]
        assert set(protocol["writerFeatures"]) == set(expected["protocol"]["writerFeatures"])


def test_a_checkpoint_holds_the_files_of_the_log(table: lw.Table) -> None:
    for path in _checkpoints(table):
        version = int(path.name[:20])
        ours = table.at(version=version).files()
        found = _read(path)["add"]
        assert sorted(a["size"] for a in found) == sorted(f.size for f in ours)


def test_removed_files_carry_when_they_went(table: lw.Table) -> None:
    times = {int(v.timestamp.timestamp() * 1000) for v in table.versions()}
    removed = _read(_checkpoints(table)[-1])["remove"]

    assert removed
    assert all(any(abs(r["deletionTimestamp"] - t) <= 1 for t in times) for r in removed)


def test_no_checkpoints_when_the_policy_says_never(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"}, policy={"checkpoint_interval": 0})
    for number in range(3):
        append(shared_lake, name, {"id": [number]})
    shared_lake.publish()

    assert _checkpoints(table) == []


def test_an_empty_table_can_have_a_checkpoint(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"}, policy={"checkpoint_interval": 1})
    append(shared_lake, name, [])
    shared_lake.publish()

    (path,) = _checkpoints(table)
    assert _read(path)["add"] == []


def test_a_file_that_came_back_is_not_listed_as_removed(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, "id int64", policy={"merge_on_read": True})
    append(shared_lake, name, [{"id": number} for number in range(100)])
    append(shared_lake, name, [{"id": 100}])
    delete(shared_lake, name, "id = 1")
    for version in (2, 3, 2):
        overwrite(shared_lake, name, [{"id": 900}])
        table.restore(version=version)
    delete(shared_lake, name, "id = 100")
    shared_lake.publish()
    table.checkpoint()

    (path,) = _checkpoints(table)
    found = _read(path)
    newest: dict[Any, str] = {}
    for line in b"".join(p.read_bytes() for p in log_files(shared_lake, name)).splitlines():
        ((kind, action),) = orjson.loads(line).items()
        if kind in ("add", "remove"):
            newest[_entry(action)] = kind
    listed = [(_entry(a), kind) for kind in ("add", "remove") for a in found[kind]]
    assert sorted(listed, key=str) == sorted(newest.items(), key=str)
    assert len({file for file, _ in newest}) < len(newest), "a file with and without a vector"


def _entry(action: dict[str, Any]) -> tuple[str, str | None]:
    """What identifies the entry of a file: its path and its deletion vector."""
    vector = action.get("deletionVector")
    named = None if vector is None else f"{vector['pathOrInlineDv']}@{vector['offset']}"
    return action["path"], named
