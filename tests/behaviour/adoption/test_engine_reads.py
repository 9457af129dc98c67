"""Adopted tables whose files do not say it all: deletion vectors and mapped columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.adoption.vectors import delete_rows
from tests.behaviour.lakes import append, column, ids, unchanged
from tests.interop.readers import DeltaRs
from tests.support.delta_log import Log


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    """Two files of ten rows; ids 3 and 7 of the first are deleted in place at version 2."""
    where = tmp_path / "vectors"
    write_deltalake(where, pa.table({"id": range(10), "v": ["x"] * 10}))
    write_deltalake(where, pa.table({"id": range(10, 20), "v": ["y"] * 10}), mode="append")
    (first,) = _paths(where)
    delete_rows(where, 2, first, [3, 7])
    return where


def _paths(where: Path) -> list[str]:
    uris = DeltaTable(where, version=0).file_uris()
    return [Path(uri).name for uri in uris]


def test_rows_deleted_in_place_are_not_read(lake: lw.Lake, vectors: Path) -> None:
    table = lake.adopt("taken", vectors)

    left = [n for n in range(20) if n not in (3, 7)]
    assert ids(lake, "taken") == left
    assert ids(lake, "taken", where="id < 8") == [n for n in left if n < 8]
    assert ids(lake, "taken", where="v = 'y'") == list(range(10, 20))
    assert table.to_arrow(columns=["v"]).num_rows == 18
    assert sorted(table.at(version=1).to_arrow()["id"].to_pylist()) == list(range(20))
    assert sorted(table.to_reader().read_all()["id"].to_pylist()) == left


def test_rows_are_added_beside_deletion_vectors(lake: lw.Lake, vectors: Path) -> None:
    table = lake.adopt("taken", vectors)
    append(lake, "taken", [{"id": 100, "v": "z"}])

    assert 3 not in ids(lake, "taken")
    assert 100 in ids(lake, "taken")
    theirs = DeltaRs().rows(table.location)["id"].to_pylist()
    assert sorted(theirs) == ids(lake, "taken")


def test_rows_of_files_with_vectors_are_not_brought_back(lake: lw.Lake, vectors: Path) -> None:
    """A rewrite that overlooked the vector would revive what it deletes."""
    table = lake.adopt("taken", vectors)

    with lake.transaction() as tx:
        tx.delete("taken", where="id = 5")
        assert column(tx.read("taken")) == [n for n in range(20) if n not in (3, 5, 7)]
    assert ids(lake, "taken") == [n for n in range(20) if n not in (3, 5, 7)]
    assert column(DeltaRs().rows(table.location)) == ids(lake, "taken")
    with lake.transaction() as tx:
        tx.delete("taken", where="id < 10")
    assert ids(lake, "taken") == list(range(10, 20))
    assert sorted(DeltaRs().rows(table.location)["id"].to_pylist()) == list(range(10, 20))


def test_mapped_columns_are_read_under_their_names(lake: lw.Lake, tmp_path: Path) -> None:
    where = tmp_path / "mapped"
    data = pa.table({"id": [1, 2, 3], "note": ["a", None, "c"]})
    write_deltalake(where, data, configuration={"delta.columnMapping.mode": "name"})
    table = lake.adopt("taken", where)

    assert table.to_arrow().sort_by("id").to_pylist() == data.to_pylist()
    assert ids(lake, "taken", where="note IS NOT NULL") == [1, 3]
    assert table.to_arrow(columns=["note"], where="id = 3")["note"].to_pylist() == ["c"]


def test_what_the_embedded_engine_cannot_write_is_refused_before_a_byte(
    lake: lw.Lake, tmp_path: Path
) -> None:
    features = ["checkpointProtection", "domainMetadata"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    lake.adopt("taken", Log(tmp_path / "tracked").start(protocol=protocol).root)

    with unchanged(lake), pytest.raises(UnsupportedFeature) as caught:
        append(lake, "taken", [{"id": 2, "name": "b"}])
    assert caught.value.features == ["checkpointProtection"]
    assert caught.value.hint
