"""Tables taken out of the lake, and names used again."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import TableNotFound
from tests.behaviour.lakes import append, data_files, ids
from tests.support.s3 import on_disk


def test_a_dropped_table_is_gone_and_its_files_stay(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])
    files = data_files(shared_lake, name)
    location = on_disk(table.location)

    shared_lake.drop(name)

    with pytest.raises(TableNotFound) as caught:
        shared_lake.table(name)
    assert caught.value.table == name
    with pytest.raises(TableNotFound):
        table.version  # noqa: B018  the question itself is refused
    assert name not in [t.name for t in shared_lake.tables()]
    assert files
    assert all((location / f).exists() for f in files)


def test_a_table_is_dropped_once(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    shared_lake.drop(name)

    with pytest.raises(TableNotFound):
        shared_lake.drop(name)


def test_a_name_used_again_is_another_table(shared_lake: lw.Lake, name: str) -> None:
    old = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, [{"id": 1}])
    old_uuid, old_location = old.uuid, old.location
    shared_lake.drop(name)

    new = shared_lake.create(name, {"id": "string", "more": "int64"})

    assert new.version == 0
    assert new.uuid != old_uuid
    assert new.location != old_location
    assert new.to_arrow().num_rows == 0
    assert [v.version for v in new.history()] == [0]
    append(shared_lake, name, [{"id": "a", "more": 2}])
    assert ids(shared_lake, name) == ["a"]


def test_names_can_be_used_again_and_again(shared_lake: lw.Lake, name: str) -> None:
    locations = set()
    for number in range(4):
        locations.add(shared_lake.create(name, {"id": "int64"}).location)
        append(shared_lake, name, [{"id": number}])
        assert ids(shared_lake, name) == [number]
        shared_lake.drop(name)

    assert len(locations) == 4


def test_a_transaction_on_a_table_dropped_meanwhile_commits_nothing(
    shared_lake: lw.Lake, name: str
) -> None:
    other = f"{name}_other"
    shared_lake.create(name, {"id": "int64"})
    shared_lake.create(other, {"id": "int64"})
    tx = shared_lake.transaction()
    tx.append(name, [{"id": 1}])
    tx.append(other, [{"id": 1}])
    shared_lake.drop(name)

    with pytest.raises(TableNotFound):
        tx.commit()

    assert shared_lake.table(other).version == 0
    assert data_files(shared_lake, other) == set()


def test_a_transaction_does_not_write_to_a_table_that_took_the_name(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    tx = shared_lake.transaction()
    tx.append(name, [{"id": 1}])
    shared_lake.drop(name)
    shared_lake.create(name, {"id": "int64"})

    with pytest.raises(TableNotFound):
        tx.commit()

    assert shared_lake.table(name).version == 0
    assert ids(shared_lake, name) == []
