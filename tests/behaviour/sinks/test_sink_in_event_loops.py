"""Sinks in an event loop: writers and commits are awaited, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import SchemaMismatch, SinkClosed
from lakeward.stream.epoch import Epoch
from tests.behaviour.lakes import ids

SCHEMA = {"id": "int64"}


def test_epochs_are_committed_once(shared_lake: lw.Lake, name: str) -> None:
    async def main() -> None:
        async with shared_lake.sink(name, writer_id="w", schema=SCHEMA).aio() as sink:
            for epoch in range(3):
                await sink.write({"id": [epoch]})
                assert not (await sink.commit_epoch(epoch)).replayed
            await sink.write({"id": [66]})
            assert (await sink.commit_epoch(1)).replayed
            with pytest.raises(SchemaMismatch):
                await sink.write({"other": [1]})
            await sink.write({"id": [67]})
            await sink.discard()
            assert sink.metrics().commits == 3
        with pytest.raises(SinkClosed):
            await sink.write({"id": [1]})

    asyncio.run(main())
    assert ids(shared_lake, name) == [0, 1, 2]


def test_groups_commit_over_several_tables(
    shared_lake: lw.Lake, new_name: Callable[[], str]
) -> None:
    names = new_name(), new_name()

    async def main() -> None:
        sinks = [shared_lake.sink(n, writer_id="w", schema=SCHEMA) for n in names]
        async with shared_lake.sinks(sinks).aio() as group:
            await asyncio.gather(*(group.write(n, {"id": [1]}) for n in names))
            await group[names[0]].write({"id": [2]})
            assert (await group.commit_epoch(0)).rows == 3
            await group.discard()

    asyncio.run(main())
    assert (ids(shared_lake, names[0]), ids(shared_lake, names[1])) == ([1, 2], [1])


def test_the_loop_goes_on_while_a_writer_waits_for_room(
    shared_lake: lw.Lake, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = threading.Event()

    async def main() -> None:
        sink = shared_lake.sink(name, writer_id="w", schema=SCHEMA, max_bytes=8, flush_rows=1)
        staging = Epoch.staging

        def slow(self: Epoch, table: str) -> object:
            assert stuck.wait(30)
            return staging(self, table)

        monkeypatch.setattr(Epoch, "staging", slow)
        async with sink.aio() as awaited:
            await awaited.write({"id": [1]})
            reader = pa.table({"id": [2]}).to_reader()
            waiting = asyncio.create_task(awaited.write(reader))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not waiting.done()
            stuck.set()
            await waiting
            await awaited.commit_epoch(1)

    asyncio.run(main())
    assert ids(shared_lake, name) == [1, 2]
