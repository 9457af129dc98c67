"""A sink whose store or disk fails in the middle of an epoch: nothing half-done, and it goes on."""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import (
    EpochFailed,
    EpochOutOfOrder,
    OutcomeUnknown,
    StorageError,
    StoreError,
    TableNotFound,
)
from lakeward.stream.sink import Sink
from tests.support.invariants import Rows, check_lake
from tests.support.losses import Loss, Losses
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow


@pytest.fixture
def lossy(lake_target: LakeTarget, lossy_target: LakeTarget) -> Generator[lw.Lake]:
    """The lake through a connection that may lose things."""
    with lake_target.open() as lake:
        lake.create("t", {"id": "int64"})
    with lossy_target.open() as lake:
        yield lake


def opened(lake: lw.Lake) -> Sink:
    return lake.sink("t", writer_id="w", schema={"id": "int64"}, flush_rows=2)


def write(sink: Sink, epoch: int) -> None:
    for number in range(5):
        sink.write({"id": [10 * epoch + number]})


def write_and_commit(sink: Sink, epoch: int) -> None:
    write(sink, epoch)
    sink.commit_epoch(epoch)


def expected(*epochs: int) -> dict[str, Rows]:
    return {"t": Rows((10 * e + n,) for e in epochs for n in range(5))}


@sizes("epochs", short=40, full=500)
def test_a_tenth_of_the_answers_lost_leaves_every_epoch_once(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, epochs: int
) -> None:
    choose = random.Random(3)

    def lose() -> Loss | None:
        return choose.choice(list(Loss)) if choose.random() < 0.1 else None

    with opened(lossy) as sink, losses.of_ratifications(lose):
        for epoch in range(epochs):
            write(sink, epoch)
            assert not sink.commit_epoch(epoch).replayed
    assert set(losses.happened) == set(Loss)
    lake = make_lake()
    assert check_lake(lake, ["t"]) == expected(*range(epochs))
    assert lake.table("t").version == epochs


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("then", ["commit again", "discard", "open again"])
def test_an_unknown_outcome_is_settled_and_the_epoch_is_there_once(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses, loss: Loss, then: str
) -> None:
    sink = opened(lossy)
    write(sink, 0)
    sink.commit_epoch(0)
    write(sink, 1)
    with (
        losses.of_ratifications(lambda: loss),
        losses.anywhere(lambda: loss if losses.happened else None),
        pytest.raises(OutcomeUnknown),
    ):
        sink.commit_epoch(1)
    with pytest.raises(EpochOutOfOrder, match="not known"):
        sink.commit_epoch(2)
    match then:
        case "commit again":
            sink.commit_epoch(1)
        case "discard":
            sink.discard()
        case _:
            sink = opened(lossy)
    # Whatever became of it, a producer that does not know replays.
    write(sink, 1)
    sink.commit_epoch(1)
    write(sink, 2)
    assert not sink.commit_epoch(2).replayed
    sink.close()
    assert check_lake(make_lake(), ["t"]) == expected(0, 1, 2)


@pytest.mark.usefixtures("impatient")
def test_a_store_that_is_down_in_mid_epoch_fails_the_epoch_and_the_sink_goes_on(
    lossy: lw.Lake, make_lake: Callable[[], lw.Lake], losses: Losses
) -> None:
    with opened(lossy) as sink:
        write(sink, 0)
        sink.commit_epoch(0)
        with losses.anywhere(lambda: Loss.REQUEST):
            # A thread tries to register the epoch's transaction; where it was slow, the commit.
            for _ in range(2):
                with pytest.raises((EpochFailed, StoreError)):
                    write_and_commit(sink, 1)
        sink.discard()
        write(sink, 1)
        assert not sink.commit_epoch(1).replayed
    assert check_lake(make_lake(), ["t"]) == expected(0, 1)


def test_a_disk_that_is_full_fails_the_epoch_and_the_sink_goes_on(lake: lw.Lake) -> None:
    with opened(lake) as sink:
        write(sink, 0)
        sink.commit_epoch(0)
        with full_disk():
            write_until_refused(sink)
            with pytest.raises(EpochFailed) as caught:
                write(sink, 1)
            assert isinstance(caught.value.__cause__, StorageError)
            with pytest.raises(StorageError):
                sink.commit_epoch(1)
        # The commit told, so that there is nothing left to discard.
        write(sink, 1)
        sink.commit_epoch(1)
        assert sink.metrics().failures == 1
    assert check_lake(lake, ["t"]) == expected(0, 1)


def test_a_disk_that_is_full_when_the_epoch_is_committed_loses_nothing_else(lake: lw.Lake) -> None:
    with lake.sink("t", writer_id="w", schema={"id": "int64"}) as sink:
        write(sink, 0)
        with full_disk(), pytest.raises(StorageError):
            sink.commit_epoch(0)
        write(sink, 0)
        assert not sink.commit_epoch(0).replayed
    assert check_lake(lake, ["t"]) == expected(0)


def test_a_table_that_was_dropped_takes_no_epoch_even_when_it_is_made_anew(lake: lw.Lake) -> None:
    with lake.sink("t", writer_id="w", schema={"id": "int64"}) as sink:
        write(sink, 0)
        sink.commit_epoch(0)
        lake.drop("t")
        write(sink, 1)
        with pytest.raises(TableNotFound):
            sink.commit_epoch(1)
        lake.create("t", {"id": "int64"})
        write(sink, 1)
        with pytest.raises(TableNotFound, match="made anew"):
            sink.commit_epoch(1)
    assert lake.table("t").version == 0
    with opened(lake) as sink:
        assert sink.last_epoch is None


@contextmanager
def full_disk() -> Generator[None]:
    """Lets every write fail that Python makes."""

    def failing(*_: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", failing)
        patch.setattr(os, "writev", failing)
        yield


def write_until_refused(sink: Sink) -> None:
    while True:
        try:
            write(sink, 66)
        except EpochFailed:
            return
