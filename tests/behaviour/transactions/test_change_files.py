"""Change files and deletion vectors of a commit: kept in the log, published, and kept for ever."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

import lakeward as lw
from lakeward.formats.registry import format_of
from lakeward.log import commits, heads
from lakeward.model.commit import Commit
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName
from lakeward.write.plan.change import Operation
from tests.behaviour.adoption.vectors import write_vector
from tests.behaviour.lakes import ids, log_files
from tests.support.inside import context_of
from tests.support.s3 import on_disk
from tests.support.tables import table_of
from tests.support.target import LakeTarget

pytestmark = pytest.mark.formats("delta")

_FEATURES = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["deletionVectors"],
    "writerFeatures": ["changeDataFeed", "deletionVectors", "inCommitTimestamp", "lakewardManaged"],
}

_TABLE = (
    table_of(id="int64")
    .options(properties={"delta.enableChangeDataFeed": "true"})
    .rows({"id": [1, 2, 3]})
)


def _delete_in_place(lake: lw.Lake, gone: list[int], row: int) -> int:
    """Delete a row as an engine with deletion vectors and a change feed does."""
    location = on_disk(lake.table("t").location)
    changes = location / "_change_data" / f"c d{row}.parquet"
    changes.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": [gone[-1]], "_change_type": ["delete"]}), changes)
    with lake.transaction() as tx:
        change = tx._view.member(TableName.parse("t"), reads=True).change
        (old,) = lake.table("t").files()
        change.removed[old.added, old.ordinal] = old
        vector = write_vector(location, [n - 1 for n in gone])
        change.added.append(replace(old.file, deletion_vector=vector))
        path = str(changes.relative_to(location))
        change.change_files.append(DataFile(path, changes.stat().st_size, None, 0))
        if change.definition.protocol["minReaderVersion"] < 3:
            change.new_definition = replace(change.definition, protocol=_FEATURES)
        change.operations.append(Operation("DELETE"))
    return tx.commit().versions["t"]


def _full(lake: lw.Lake, version: int, name: str = "t") -> Commit:
    with context_of(lake).database.read() as session:
        head = heads.get(session, TableName.parse(name))
        return commits.full(session, head.table_id, version)


def _published(lake: lw.Lake, version: int) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in log_files(lake, "t")[version].read_bytes().splitlines()]


def _feed(lake: lw.Lake) -> list[tuple[int, str, int]]:
    found = pa.table(DeltaTable(lake.table("t").location).load_cdf(starting_version=1).read_all())
    rows = found.select(["id", "_change_type", "_commit_version"]).to_pylist()
    return sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in rows)


def _stranger(lake: lw.Lake) -> list[int]:
    engine = QueryBuilder().register("t", DeltaTable(lake.table("t").location))
    return sorted(pa.table(engine.execute("SELECT id FROM t")).column("id").to_pylist())


def test_a_commit_tells_its_changes_and_every_reader_agrees(lake: lw.Lake) -> None:
    _TABLE.make(lake)

    version = _delete_in_place(lake, [2], 2)

    (cdc,) = [line["cdc"] for line in _published(lake, version) if "cdc" in line]
    size = _full(lake, version).change_files[0].size
    expected = {"path": "_change_data/c%20d2.parquet", "partitionValues": {}, "size": size}
    assert cdc == {**expected, "dataChange": False}
    assert ids(lake, "t") == _stranger(lake) == [1, 3]
    assert _feed(lake)[-1] == (version, "delete", 2)


def test_a_file_that_comes_again_with_another_vector_is_live_once(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    _delete_in_place(lake, [2], 2)

    version = _delete_in_place(lake, [2, 3], 3)

    kinds = [next(iter(line)) for line in _published(lake, version)]
    assert kinds.index("remove") < kinds.index("add")
    (live,) = lake.table("t").files()
    assert isinstance(live, LoggedFile)
    assert live.added == version
    assert ids(lake, "t") == _stranger(lake) == [1]
    assert lake.table("t").at(version=version - 1).to_arrow().num_rows == 2
    assert lake.doctor().findings == ()


def test_a_checkpoint_holds_the_newest_vector(lake: lw.Lake) -> None:
    _TABLE.make(lake)
    _delete_in_place(lake, [2], 2)
    version = _delete_in_place(lake, [2, 3], 3)

    with context_of(lake).database.read() as session:
        head = heads.get(session, TableName.parse("t"))
    format_of(head).checkpoint(context_of(lake), head, version, lake.table("t").definition)

    for path in log_files(lake, "t"):
        path.unlink()
    assert DeltaTable(lake.table("t").location).version() == version
    assert _stranger(lake) == [1]


def test_an_exported_store_has_the_change_files(
    lake: lw.Lake, lake_target: LakeTarget, tmp_path: Path
) -> None:
    _TABLE.make(lake)
    version = _delete_in_place(lake, [2], 2)
    lake.export_store(tmp_path / "store.zip")

    copied = tmp_path / "copied"
    unowned = shutil.ignore_patterns("lakeward.db*", "_lakeward", ".lakeward")
    shutil.copytree(lake_target.warehouse, copied, ignore=unowned)
    with lw.open(tmp_path / "other", warehouse=copied) as other:
        other.import_store(tmp_path / "store.zip")

        assert _full(other, version) == _full(lake, version)
        assert other.doctor().findings == ()


def test_a_rebuilt_store_has_the_change_files(lake: lw.Lake, tmp_path: Path) -> None:
    _TABLE.make(lake)
    version = _delete_in_place(lake, [2], 2)
    shutil.copytree(on_disk(lake.table("t").location), tmp_path / "other" / "t")

    with lw.open(tmp_path / "other") as other:
        other.rebuild()

        assert _full(other, version).change_files == _full(lake, version).change_files
        assert ids(other, "t") == [1, 3]


def test_a_foreign_commit_keeps_its_change_files(lake: lw.Lake, tmp_path: Path) -> None:
    place = str(tmp_path / "foreign")
    configuration = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(place, pa.table({"id": [1, 2]}), configuration=configuration)
    lake.adopt("f", place, guard=False)

    DeltaTable(place).delete("id = 1")

    assert lake.table("f").version == 1
    (told,) = _full(lake, 1, "f").change_files
    assert (tmp_path / "foreign" / told.path).stat().st_size == told.size
    assert ("change file", told.path) in [(e.action, e.path) for e in lake.table("f").entries()]
