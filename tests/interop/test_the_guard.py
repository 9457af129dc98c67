"""A guarded table is read by everybody and written by nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, TableFeatures, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import PrimitiveType

import lakeward as lw
from tests.behaviour.lakes import append, delete, ids, unchanged
from tests.interop.readers import Reader

_NEW = pa.table({"id": [9], "v": ["new"]})

_WRITES: dict[str, Callable[[str], Any]] = {
    "append": lambda at: write_deltalake(at, _NEW, mode="append"),
    "overwrite": lambda at: write_deltalake(at, _NEW, mode="overwrite"),
    "replace where": lambda at: write_deltalake(at, _NEW, mode="overwrite", predicate="id = 9"),
    "another schema": lambda at: write_deltalake(
        at, _NEW, mode="overwrite", schema_mode="overwrite"
    ),
    "delete": lambda at: DeltaTable(at).delete("id = 0"),
    "delete all": lambda at: DeltaTable(at).delete(),
    "update": lambda at: DeltaTable(at).update(updates={"v": "'new'"}),
    "merge": lambda at: (
        DeltaTable(at)
        .merge(_NEW, "s.id = t.id", source_alias="s", target_alias="t")
        .when_not_matched_insert_all()
        .execute()
    ),
    "compact": lambda at: DeltaTable(at).optimize.compact(),
    "z-order": lambda at: DeltaTable(at).optimize.z_order(["id"]),
    "properties": lambda at: DeltaTable(at).alter.set_table_properties(
        {"delta.appendOnly": "true"}
    ),
    "constraint": lambda at: DeltaTable(at).alter.add_constraint({"c": "id >= 0"}),
    "column": lambda at: DeltaTable(at).alter.add_columns([Field("n", PrimitiveType("long"))]),
    "feature": lambda at: DeltaTable(at).alter.add_feature(
        [TableFeatures.AppendOnly], allow_protocol_versions_increase=True
    ),
    "restore": lambda at: DeltaTable(at).restore(1),
    "vacuum": lambda at: DeltaTable(at).vacuum(
        retention_hours=0, dry_run=False, enforce_retention_duration=False
    ),
}


@pytest.fixture
def table(own_lake: lw.Lake, name: str) -> lw.Table:
    table = own_lake.create(name, {"id": "int64", "v": "string"})
    for number in range(3):
        append(own_lake, name, [{"id": number, "v": "x"}])
    delete(own_lake, name, "id = 1")
    return table


@pytest.mark.parametrize("write", _WRITES)
def test_a_strangers_write_is_refused_and_changes_nothing(
    own_lake: lw.Lake, table: lw.Table, write: str
) -> None:
    with unchanged(own_lake), pytest.raises(CommitFailedError, match="lakewardManaged"):
        _WRITES[write](table.location)

    assert ids(own_lake, table.name) == [0, 2]
    assert append(own_lake, table.name, [{"id": 5, "v": "x"}]) == 5


def test_readers_are_not_kept_out(stranger: Reader, table: lw.Table) -> None:
    assert sorted(stranger.rows(table.location)["id"].to_pylist()) == [0, 2]


def test_only_the_guard_keeps_writers_out(own_lake: lw.Lake) -> None:
    """So that the refusals above are its doing."""
    table = own_lake.create("open.t", {"id": "int64", "v": "string"}, guard=False)
    append(own_lake, "open.t", [{"id": 1, "v": "x"}])

    write_deltalake(table.location, _NEW, mode="append")

    assert DeltaTable(table.location).version() == 2
    assert ids(own_lake, "open.t") == [1, 9]
    assert append(own_lake, "open.t", [{"id": 2, "v": "x"}]) == 3


def test_files_that_a_stranger_left_before_it_was_refused_do_no_harm(
    own_lake: lw.Lake, table: lw.Table
) -> None:
    (Path(table.location) / "part-stray.parquet").write_bytes(b"not in any log")

    assert ids(own_lake, table.name) == [0, 2]
    assert sorted(DeltaTable(table.location).to_pyarrow_table()["id"].to_pylist()) == [0, 2]


def test_a_strangers_checkpoint_does_no_harm(
    own_lake: lw.Lake, table: lw.Table, stranger: Reader
) -> None:
    """Checkpoints are no commits, so writers may add them to a table that they may not write."""
    DeltaTable(table.location).create_checkpoint()
    append(own_lake, table.name, [{"id": 7, "v": "x"}])

    assert sorted(stranger.rows(table.location)["id"].to_pylist()) == [0, 2, 7]
    assert ids(own_lake, table.name) == [0, 2, 7]


def test_an_adopted_table_with_an_empty_list_of_reader_features_is_read_by_all(
    own_lake: lw.Lake, stranger: Reader, name: str, tmp_path: Path
) -> None:
    place = tmp_path / "t"
    write_deltalake(place, pa.table({"id": [1, 2]}))
    log = place / "_delta_log" / f"{0:020}.json"
    features = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol = {"protocol": {**features, "readerFeatures": [], "writerFeatures": []}}
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    lines = [json.dumps(protocol if "protocol" in action else action) for action in actions]
    log.write_text("\n".join(lines) + "\n")

    own_lake.adopt(name, place)
    append(own_lake, name, pa.table({"id": [3]}))

    assert sorted(stranger.rows(str(place))["id"].to_pylist()) == [1, 2, 3]
