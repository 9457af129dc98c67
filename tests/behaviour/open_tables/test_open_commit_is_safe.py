"""On an open table the published file decides, so its name must be safe before the log says so."""

from __future__ import annotations

from pathlib import Path

import pytest

import lakeward as lw
from lakeward.model import steps
from lakeward.storage import local, syncing
from tests.support.s3 import on_disk


@pytest.mark.local
def test_the_name_of_a_published_file_is_synced_before_the_log_commits(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create("t", {"id": "int64"}, guard=False)
    log = on_disk(table.location) / "_delta_log"
    seen: list[str] = []
    sync = syncing.sync

    def synced(directory: str) -> None:
        sync(directory)
        if Path(directory) == log:
            seen.append("name synced")

    monkeypatch.setattr(local, "sync", synced)
    monkeypatch.setattr(syncing, "sync", synced)
    steps.observe(seen.append)
    try:
        with lake.transaction() as tx:
            tx.append("t", [{"id": 1}])
    finally:
        steps.observe(None)

    named = seen.index("publish.linked")
    assert "name synced" in seen[named : seen.index("ratify.committed")]
    assert (log / f"{1:020d}.json").exists()


def test_an_interrupt_after_the_file_was_put_deletes_nothing_of_the_commit(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"}, guard=False)
    tx = lake.transaction()
    tx.append("t", [{"id": 1}])

    def interrupt(step: str) -> None:
        if step == "publish.linked":
            raise KeyboardInterrupt

    steps.observe(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            tx.commit()
    finally:
        steps.observe(None)

    assert table.to_arrow().to_pylist() == [{"id": 1}]
    assert lake.outcome(tx.transaction_id).versions == {"t": 1}


def test_a_name_that_cannot_be_synced_is_no_failed_commit(
    lake: lw.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake.create("t", {"id": "int64"}, guard=False)
    log = on_disk(table.location) / "_delta_log"
    sync = syncing.sync

    def failing(directory: str) -> None:
        if Path(directory) == log:
            raise OSError(5, "Input/output error")
        sync(directory)

    monkeypatch.setattr(local, "sync", failing)
    with lake.transaction() as tx:
        tx.append("t", [{"id": 1}])

    assert table.to_arrow().to_pylist() == [{"id": 1}]
    assert lake.outcome(tx.transaction_id).versions == {"t": 1}
