"""A table as it was: by version, by moment, with the schema and the files of that time."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, VersionNotFound
from tests.behaviour.lakes import append, column, overwrite


@pytest.fixture
def table(shared_lake: lw.Lake, name: str) -> lw.Table:
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})
    overwrite(shared_lake, name, {"id": [2]})
    append(shared_lake, name, {"id": [3]})
    return table


def test_every_version_reads_as_it_was(table: lw.Table) -> None:
    found = [column(table.at(version=v).to_arrow()) for v in range(4)]

    assert found == [[], [1], [2], [2, 3]]
    assert column(table.at().to_arrow()) == [2, 3]


def test_a_snapshot_says_what_it_is(table: lw.Table) -> None:
    snapshot = table.at(version=1)

    assert snapshot.version == 1
    assert snapshot.name == table.name
    assert snapshot.schema == table.schema
    assert snapshot.timestamp == table.history(since=1, until=1)[0].timestamp
    assert [f.rows for f in snapshot.files()] == [1]


def test_a_snapshot_never_changes(shared_lake: lw.Lake, table: lw.Table) -> None:
    snapshot = table.at()
    append(shared_lake, table.name, {"id": [4]})
    overwrite(shared_lake, table.name, {"id": [5]})

    assert column(snapshot.to_arrow()) == [2, 3]
    assert column(snapshot.to_arrow(where="id > 2")) == [3]
    assert snapshot.totals().rows == 2


def test_a_moment_finds_the_version_that_held_then(table: lw.Table) -> None:
    for version in reversed(table.history()):
        moment = version.timestamp
        assert table.at(timestamp=moment).version == version.version
        assert table.at(timestamp=moment.isoformat()).version == version.version
        just_before = moment - timedelta(milliseconds=1)
        if version.version:
            assert table.at(timestamp=just_before).version == version.version - 1
        else:
            with pytest.raises(VersionNotFound):
                table.at(timestamp=just_before)


def test_a_moment_in_the_future_is_now(table: lw.Table) -> None:
    assert table.at(timestamp="9999-12-31T23:59:59Z").version == 3


def test_a_moment_without_zone_is_utc_and_zones_are_honoured(table: lw.Table) -> None:
    newest = table.history(limit=1)[0].timestamp
    naive = newest.astimezone(UTC).replace(tzinfo=None)
    east = timezone(timedelta(hours=9))

    assert table.at(timestamp=naive).version == 3
    assert table.at(timestamp=naive.isoformat()).version == 3
    assert table.at(timestamp=newest.astimezone(east)).version == 3
    with pytest.raises(VersionNotFound):
        table.at(timestamp=naive.replace(tzinfo=east))


def test_a_version_that_is_not_there_is_told_with_those_that_are(table: lw.Table) -> None:
    for version in (4, -1, 10**12):
        with pytest.raises(VersionNotFound) as caught:
            table.at(version=version)
        assert caught.value.table == table.name
        assert caught.value.version == version
        assert "0 to 3" in str(caught.value)


def test_a_moment_before_the_table_is_told(table: lw.Table) -> None:
    with pytest.raises(VersionNotFound) as caught:
        table.at(timestamp="1999-01-01")
    assert caught.value.table == table.name


def test_only_one_way_of_saying_when(table: lw.Table) -> None:
    with pytest.raises(InvalidInput):
        table.at(version=1, timestamp="2026-01-01")
