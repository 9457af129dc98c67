"""Epochs: each is one version with its number, is committed once, and follows the one before."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import EpochOutOfOrder, Fenced, InvalidInput, SinkClosed
from lakeward.stream.sink import Sink
from tests.behaviour.lakes import append, column, data_files, ids, unchanged
from tests.behaviour.published import told

SCHEMA = {"id": "int64", "part": "string"}


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"id": n, "part": f"p{n % 2}"} for n in numbers]


def opened(lake: lw.Lake, name: str, **options: object) -> Sink:
    return lake.sink(name, writer_id="w", schema=SCHEMA, **options)  # type: ignore[arg-type]


def test_an_epoch_is_one_version_with_its_number(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        assert (sink.last_epoch, sink.generation) == (None, 1)
        sink.write(rows(1, 2))
        sink.write(rows(3))
        assert ids(shared_lake, name) == []
        first = sink.commit_epoch(1)
        sink.write(rows(4))
        second = sink.commit_epoch(2)

    table = shared_lake.table(name)
    assert (first.versions, second.versions) == ({name: 1}, {name: 2})
    assert (first.rows, first.replayed, first.epoch) == (3, False, 1)
    assert first.transaction_id == table.history()[1].transaction_id
    assert table.app_version("w") == 2
    assert ids(shared_lake, name) == [1, 2, 3, 4]
    assert column(table.at(version=1).to_arrow()) == [1, 2, 3]


@pytest.mark.formats("delta")
def test_the_number_is_published_with_the_rows(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        for epoch in (7, 8):
            sink.write(rows(epoch))
            sink.commit_epoch(epoch)
    assert [c.applications for c in told(shared_lake, name)] == [{"w": 7}, {"w": 8}]


def test_an_epoch_that_is_there_is_not_committed_again(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write(rows(1))
        done = sink.commit_epoch(1)
        sink.write(rows(2))
        sink.commit_epoch(2)
        with unchanged(shared_lake):
            for epoch in (1, 2):
                sink.write(rows(epoch, 99))
                again = sink.commit_epoch(epoch)
                assert again.replayed
                assert again.rows == 2
                assert again.versions == {name: epoch}
            assert sink.commit_epoch(1).transaction_id == done.transaction_id
        sink.write(rows(3))
        assert not sink.commit_epoch(3).replayed
        assert sink.metrics().replays == 3
    assert ids(shared_lake, name) == [1, 2, 3]


def test_a_later_instance_knows_what_was_committed(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write(rows(1))
        sink.commit_epoch(5)
    with shared_lake.sink(name, writer_id="w") as sink:
        assert (sink.last_epoch, sink.generation) == (5, 2)
        sink.write(rows(1))
        assert sink.commit_epoch(5).replayed
        sink.write(rows(2))
        assert sink.commit_epoch(6).versions == {name: 2}
    assert ids(shared_lake, name) == [1, 2]


def test_an_epoch_that_skips_one_is_refused_and_its_rows_are_kept(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name) as sink:
        sink.write(rows(1))
        sink.commit_epoch(1)
        sink.write(rows(2))
        with unchanged(shared_lake), pytest.raises(EpochOutOfOrder) as caught:
            sink.commit_epoch(3)
        assert (caught.value.epoch, caught.value.last, caught.value.expected) == (3, 1, 2)
        assert sink.commit_epoch(2).rows == 1
    assert ids(shared_lake, name) == [1, 2]


def test_epochs_may_be_left_out_where_that_is_allowed(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name, gaps=True) as sink:
        for epoch in (10, 20):
            sink.write(rows(epoch))
            sink.commit_epoch(epoch)
        sink.write(rows(15))
        assert sink.commit_epoch(15).replayed
    assert ids(shared_lake, name) == [10, 20]


@pytest.mark.parametrize("epoch", [-1, 1.5, "1", None, True, 2**63])
def test_a_number_that_is_none_is_refused(shared_lake: lw.Lake, name: str, epoch: object) -> None:
    with opened(shared_lake, name) as sink:
        sink.write(rows(1))
        with pytest.raises(InvalidInput):
            sink.commit_epoch(epoch)  # type: ignore[arg-type]
        assert sink.commit_epoch(0).rows == 1


def test_an_older_instance_is_fenced_off(shared_lake: lw.Lake, name: str) -> None:
    zombie = opened(shared_lake, name)
    zombie.write(rows(1))
    zombie.commit_epoch(1)
    zombie.write(rows(66))
    with shared_lake.sink(name, writer_id="w") as newer, unchanged(shared_lake):
        for _ in range(2):
            with pytest.raises(Fenced) as caught:
                zombie.commit_epoch(2)
            assert (caught.value.generation, caught.value.newer_generation) == (1, 2)
        with pytest.raises(SinkClosed):
            zombie.write(rows(67))
    with shared_lake.sink(name, writer_id="w") as newer:
        newer.write(rows(2))
        newer.commit_epoch(2)
    assert ids(shared_lake, name) == [1, 2]


def test_writers_and_tables_do_not_fence_each_other(
    shared_lake: lw.Lake, name: str, new_name: object
) -> None:
    other = f"{name}_other"
    first = opened(shared_lake, name)
    with shared_lake.sink(name, writer_id="v") as second, opened(shared_lake, other) as third:
        for number, sink in enumerate((first, second, third)):
            sink.write(rows(number))
            sink.commit_epoch(4)
    first.close()
    assert ids(shared_lake, name) == [0, 1]
    assert ids(shared_lake, other) == [2]


def test_an_epoch_without_rows_is_counted(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        assert sink.commit_epoch(1).rows == 0
        sink.write(rows(1))
        sink.commit_epoch(2)
    assert shared_lake.table(name).app_version("w") == 2
    assert ids(shared_lake, name) == [1]


def test_what_was_not_committed_is_gone_when_the_sink_is_closed(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name, flush_rows=1) as sink:
        sink.write(rows(1))
        sink.commit_epoch(1)
        kept = data_files(shared_lake, name)
        sink.write(rows(2))
        sink.write(rows(3))
    with pytest.raises(SinkClosed):
        sink.write(rows(4))
    with pytest.raises(SinkClosed):
        sink.commit_epoch(2)
    sink.close()
    assert ids(shared_lake, name) == [1]
    assert data_files(shared_lake, name) == kept


def test_discarded_rows_are_written_again(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name, flush_rows=1) as sink:
        sink.write(rows(66))
        sink.discard()
        sink.write(rows(1))
        assert sink.commit_epoch(1).rows == 1
    assert ids(shared_lake, name) == [1]
    assert len(data_files(shared_lake, name)) == 1


def test_others_append_between_epochs(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name, flush_rows=1) as sink:
        sink.write(rows(1))
        append(shared_lake, name, rows(10))
        assert sink.commit_epoch(1).versions == {name: 2}
    assert ids(shared_lake, name) == [1, 10]


def test_progress_is_recorded_with_the_epoch(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        assert sink.progress is None
        sink.write(rows(1))
        sink.commit_epoch(1, progress={"events:0": 17})
        assert sink.progress == {"events:0": 17}
        sink.write(rows(2))
        with pytest.raises(InvalidInput):
            sink.commit_epoch(2, progress=[1])
    with shared_lake.sink(name, writer_id="w") as sink:
        assert sink.progress == {"events:0": 17}
        sink.write(rows(1))
        assert sink.commit_epoch(1, progress={"events:0": 99}).replayed
        assert sink.progress == {"events:0": 17}
