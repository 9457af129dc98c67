"""Compaction of files that lie in another table, are missing, or are damaged."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import FileMissing, StorageError
from tests.behaviour.optimize.test_rows_stay import SMALL, rows
from tests.support.s3 import on_disk


def test_a_clone_is_compacted_without_touching_its_source(shared_lake: lw.Lake, name: str) -> None:
    source = SMALL.make(shared_lake, name)
    kept = [f.path for f in source.files()]
    clone = shared_lake.clone(name, f"{name}_clone")
    clone.append(source.to_arrow().slice(0, 7))
    before, of_source = rows(clone), rows(source)

    clone.optimize()

    assert len(clone.files()) == 1
    assert rows(clone) == before
    assert rows(source) == of_source
    assert [f.path for f in source.files()] == kept


@pytest.mark.parametrize("is_damaged", [False, True], ids=["missing", "damaged"])
def test_a_file_that_cannot_be_read_is_named_and_nothing_changes(
    shared_lake: lw.Lake, name: str, is_damaged: bool
) -> None:
    table = SMALL.make(shared_lake, name)
    version, third = table.version, table.files()[2].path
    place = on_disk(f"{table.location}/{third}")
    data = place.read_bytes()
    if is_damaged:
        place.write_bytes(data[:-9])
    else:
        place.unlink()

    with pytest.raises(StorageError if is_damaged else FileMissing, match=place.name) as found:
        table.optimize()

    assert is_damaged or "lakeward doctor" in str(found.value)
    assert table.version == version
    place.write_bytes(data)
    table.optimize()
    assert table.version == version + 1
