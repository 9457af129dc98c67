"""Epochs over several tables, of both formats: in all of them or in none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import EpochOutOfOrder, Fenced, InvalidInput
from lakeward.stream.sink import SinkGroup
from tests.behaviour.lakes import ids, unchanged

pytestmark = pytest.mark.formats("delta")
SCHEMA = {"id": "int64"}


@pytest.fixture
def names(new_name: Callable[[], str]) -> tuple[str, str]:
    return new_name(), new_name()


def opened(lake: lw.Lake, names: tuple[str, str]) -> SinkGroup:
    delta, iceberg = names
    return lake.sinks(
        [
            lake.sink(delta, writer_id="w", schema=SCHEMA, format="delta"),
            lake.sink(iceberg, writer_id="w", schema=SCHEMA, format="iceberg"),
        ]
    )


def test_an_epoch_is_one_transaction_over_both_formats(
    shared_lake: lw.Lake, names: tuple[str, str]
) -> None:
    with opened(shared_lake, names) as group:
        group.write(names[0], {"id": [1, 2]})
        group[names[1]].write({"id": [3]})
        result = group.commit_epoch(1, progress={"at": 3})
        assert result.versions == {names[0]: 1, names[1]: 1}
        assert result.rows == 3
        assert (group.last_epoch, group.progress) == (1, {"at": 3})
    record = shared_lake.transaction_record(str(result.transaction_id))
    assert dict(record.versions) == result.versions
    assert (ids(shared_lake, names[0]), ids(shared_lake, names[1])) == ([1, 2], [3])


def test_a_replayed_epoch_changes_no_table(shared_lake: lw.Lake, names: tuple[str, str]) -> None:
    with opened(shared_lake, names) as group:
        group.write(names[0], {"id": [1]})
        done = group.commit_epoch(1)
    with opened(shared_lake, names) as group:
        with unchanged(shared_lake):
            for name in names:
                group.write(name, {"id": [1]})
            again = group.commit_epoch(1)
        assert again.replayed
        assert again.versions == done.versions
        assert again.transaction_id == done.transaction_id


def test_a_table_that_joined_later_gets_what_the_others_have(
    shared_lake: lw.Lake, names: tuple[str, str]
) -> None:
    with shared_lake.sink(names[0], writer_id="w", schema=SCHEMA) as alone:
        alone.write({"id": [1]})
        alone.commit_epoch(1)
    with opened(shared_lake, names) as group:
        for name in names:
            group.write(name, {"id": [1]})
        result = group.commit_epoch(1)
        assert result.versions == {names[1]: 1}
        assert not result.replayed
    assert (ids(shared_lake, names[0]), ids(shared_lake, names[1])) == ([1], [1])


def test_one_fenced_table_keeps_all_back(shared_lake: lw.Lake, names: tuple[str, str]) -> None:
    group = opened(shared_lake, names)
    for name in names:
        group.write(name, {"id": [66]})
    shared_lake.sink(names[1], writer_id="w").close()
    with unchanged(shared_lake), pytest.raises(Fenced):
        group.commit_epoch(1)
    assert (ids(shared_lake, names[0]), ids(shared_lake, names[1])) == ([], [])


def test_one_table_that_would_miss_an_epoch_keeps_all_back(
    shared_lake: lw.Lake, names: tuple[str, str]
) -> None:
    with opened(shared_lake, names) as group:
        group.commit_epoch(1)
    with shared_lake.sink(names[0], writer_id="w") as alone:
        alone.commit_epoch(2)
    with opened(shared_lake, names) as group:
        group.write(names[0], {"id": [1]})
        with unchanged(shared_lake), pytest.raises(EpochOutOfOrder):
            group.commit_epoch(3)


def test_a_group_that_makes_no_sense_is_refused(
    shared_lake: lw.Lake, names: tuple[str, str]
) -> None:
    with shared_lake.sink(names[0], writer_id="w", schema=SCHEMA) as sink:
        for wrong in ([], [sink, sink], [names[0]]):
            with pytest.raises(InvalidInput):
                shared_lake.sinks(wrong)  # type: ignore[arg-type]
        group = shared_lake.sinks([sink])
        with pytest.raises(InvalidInput, match="group"):
            sink.commit_epoch(1)
        with pytest.raises(InvalidInput, match="no sink"):
            group[names[1]]
        with pytest.raises(InvalidInput, match="in use"):
            shared_lake.sinks([sink])
