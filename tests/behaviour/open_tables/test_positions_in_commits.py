"""What a consumer or a stream writes to an open table is there once, also after a crash."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from lakeward.model import steps
from lakeward.pipeline import Pipeline, new
from lakeward.stream.consumer import Consumer
from lakeward.stream.structured import sink
from lakeward.write.transaction.lifecycle import Lifecycle
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of


class Crash(BaseException):
    """Stands for a process that dies here."""


@contextmanager
def crash_after_put() -> Generator[None]:
    """Put the published file, and lose the database transaction and the process."""

    def crash(step: str) -> None:
        if step == "publish.linked":
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lifecycle, "rollback", lambda _: None)  # the dead roll nothing back
        steps.observe(crash)
        try:
            with pytest.raises(Crash):
                yield
        finally:
            steps.observe(None)


@pytest.fixture
def source(lake: lw.Lake) -> lw.Lake:
    """A lake with a source of three commits and an open target."""
    lake.create("source", {"id": "int64"})
    lake.create("target", {"id": "int64"}, guard=False)
    for number in (1, 2, 3):
        append(lake, "source", {"id": [number]})
    return lake


def copy(tx: lw.Transaction, change: Any) -> None:
    tx.append("target", {"id": [change.position]})


def crash_in_first_change(consumer: Consumer) -> list[Any]:
    """Copy the first change, crash after its commit was published; return all changes."""
    changes = list(consumer)
    tx = consumer.transaction(changes[0])
    copy(tx, changes[0])
    with crash_after_put():
        tx.commit()
    return changes


def test_a_consumer_does_not_get_a_change_again_that_is_in_the_table(
    source: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    changes = crash_in_first_change(source.consumer("c", tables=["source"]))

    again = make_lake()
    second = again.consumer("c", tables=["source"])
    for change in second:
        with second.transaction(change) as tx:
            copy(tx, change)

    assert ids(again, "target") == [c.position for c in changes]
    assert second.position == changes[-1].position


def test_a_consumer_that_follows_goes_on_after_the_change_that_is_in_the_table(
    source: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    changes = crash_in_first_change(source.consumer("c", tables=["source"]))

    second = make_lake().consumer("c", tables=["source"])

    assert [c.position for c in second.follow(timeout=0)] == [c.position for c in changes[1:]]


def test_a_consumer_that_is_rewound_gets_its_changes_again(source: lw.Lake) -> None:
    consumer = source.consumer("c", tables=["source"])
    changes = crash_in_first_change(consumer)

    consumer.rewind(0)

    assert [c.position for c in consumer] == [c.position for c in changes]


@pytest.mark.parametrize("query_id", ["query-1", None])
def test_a_stream_skips_a_batch_that_is_in_the_table(
    source: lw.Lake, make_lake: Callable[..., lw.Lake], query_id: str | None
) -> None:
    with crash_after_put():
        _stream(source, "first")(_batch(query_id, 10), 0)

    again = make_lake()
    stream = _stream(again, "first")
    stream(_batch(query_id, 10), 0)
    stream(_batch(query_id, 11), 1)

    assert ids(again, "target") == [10, 11]


def test_a_pipeline_refuses_an_open_table_before_it_reads(source: lw.Lake) -> None:
    pipeline = Pipeline("p")

    @pipeline.step("target", schema="id int64")
    def target(rows: Any = new("source")) -> Any:
        return rows

    with pytest.raises(UnsupportedFeature, match="target is not guarded"):
        pipeline.run(source, None)


def _batch(query_id: str | None, number: int) -> Any:
    """A micro-batch as far as the sink looks at it, and its rows; Spark itself is not needed."""
    session = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=lambda _: query_id))
    return SimpleNamespace(sparkSession=session, data={"id": [number]})


def _stream(lake: lw.Lake, query: str) -> Callable[[Any, int], None]:
    def begin(*, spark: Any, message: str) -> lw.Transaction:
        return lake.transaction(message=message)

    own: Any = SimpleNamespace(_context=context_of(lake), transaction=begin)
    return sink(own, lambda tx, rows: tx.append("target", rows.data), query=query)
