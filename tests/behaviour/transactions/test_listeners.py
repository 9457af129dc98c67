"""Listeners: each kind of event, and that none of them delays or loses anything."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import (
    Conflict,
    ConstraintViolation,
    InvalidInput,
    LakewardError,
    StepFailed,
    StorageError,
    without_values,
)
from lakeward.model import delivery
from lakeward.model.event_names import NAMES

SCHEMA = {"id": "int64"}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", SCHEMA, constraints={"positive": "id > 0"})
        yield lake


def _heard(lake: lw.Lake) -> list[tuple[str, Any]]:
    """Listen to all events, and return the list that they come into."""
    seen: list[tuple[str, Any]] = []
    for name in NAMES:
        lake.on(name, lambda event, name=name: seen.append((name, event)))
    return seen


def _append(lake: lw.Lake, row: int = 1) -> lw.CommitResult:
    return lake.table("t").append([{"id": row}])


def _of(seen: list[tuple[str, Any]], name: str) -> list[Any]:
    return [event for found, event in seen if found == name]


def test_a_commit_is_ratified_then_published_then_committed(opened: lw.Lake) -> None:
    seen = _heard(opened)

    done = _append(opened)
    assert opened.wait_for_listeners()

    (ratified,), (published,), (commit,) = (
        _of(seen, name) for name in ("ratified", "published", "commit")
    )
    assert ratified.published is None
    assert commit.published is True
    assert published.versions == commit.versions == ratified.versions == {"t": 1}
    assert ratified.transaction_id == published.transaction_id == done.transaction_id
    assert 0 <= published.seconds < 60
    assert len(seen) == 3


def test_a_conflict_tells_whether_it_was_resolved(opened: lw.Lake) -> None:
    _append(opened)
    seen = _heard(opened)
    late = opened.transaction()
    late.delete("t", where="id = 1")
    opened.table("t").delete(where="id = 1")
    with pytest.raises(Conflict):
        late.commit()
    assert opened.wait_for_listeners()

    (event,) = _of(seen, "conflicted")
    assert (event.table, event.resolved, event.attempt) == ("t", False, 1)
    assert event.transaction_id == late.transaction_id
    assert _of(seen, "failed") == []
    assert opened.counters()["conflicts"] == 1


def test_an_error_ends_a_transaction_with_an_event(opened: lw.Lake) -> None:
    seen = _heard(opened)
    with pytest.raises(LakewardError), opened.transaction() as tx:
        tx.append("t", [{"nonsense": 1}])
    assert opened.wait_for_listeners()

    ((name, event),) = seen
    assert (name, event.error, event.tables) == ("failed", "SchemaMismatch", ("t",))
    assert event.transaction_id == tx.transaction_id
    assert opened.counters()["failures"] == 1


def test_the_event_of_an_error_has_no_values_of_rows(opened: lw.Lake) -> None:
    seen = _heard(opened)

    def misfit(tx: lw.Transaction) -> None:
        tx.append("t", [{"id": "secret-77"}])

    def condition(tx: lw.Transaction) -> None:
        tx.delete("t", where="nothing = 'secret-77'")

    for work in (misfit, condition):
        with pytest.raises(LakewardError, match=r"secret-77|nothing"):
            opened.run(work)
    assert opened.wait_for_listeners()

    events = _of(seen, "failed")
    assert [e.error for e in events] == ["SchemaMismatch", "InvalidExpression"]
    assert "secret" not in str(events)
    assert events[0].reason.startswith("SchemaMismatch (table t, column id);")


def test_errors_that_quote_no_values_keep_their_message_in_events() -> None:
    plain = StorageError("The disk is full.", hint="Delete something.")
    assert without_values(plain) == "The disk is full."
    step = StepFailed("Step t raised ValueError: secret-77.", step="t")
    assert without_values(step).startswith("StepFailed; ")
    assert "secret" not in without_values(step) + without_values(KeyError("secret-77"))


def test_a_violation_is_an_event_without_the_rows(opened: lw.Lake) -> None:
    seen = _heard(opened)
    with pytest.raises(ConstraintViolation):
        opened.table("t").append([{"id": -7700000077}, {"id": 1}])
    assert opened.wait_for_listeners()

    (event,) = _of(seen, "violation")
    assert (event.table, event.constraint, event.action) == ("t", "positive", "fail")
    assert "-7700000077" not in str(event)


def test_a_violation_that_is_only_warned_of_is_an_event(opened: lw.Lake) -> None:
    opened.create("w", SCHEMA, constraints={"key": lw.Unique("id", on_violation="warn")})
    seen = _heard(opened)
    opened.table("w").append([{"id": 1}, {"id": 1}])
    assert opened.wait_for_listeners()

    (event,) = _of(seen, "violation")
    assert (event.table, event.constraint, event.action) == ("w", "key", "warn")
    assert opened.counters()["violations"] == 1


def test_a_run_of_maintenance_is_an_event(opened: lw.Lake) -> None:
    for n in range(3):
        _append(opened, n + 1)
    seen = _heard(opened)
    opened.table("t").optimize()
    assert opened.wait_for_listeners()

    (event,) = _of(seen, "maintenance")
    assert (event.kind, event.table, event.state) == ("optimize", "t", "done")
    assert opened.counters()["jobs_done"] == 1


def test_versions_of_others_that_are_published_later_are_an_event(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    log = Path(opened.table("t").location) / "_delta_log" / f"{1:020}.json"
    log.write_text('{"commitInfo": {}}')
    with caplog.at_level(logging.CRITICAL, "lakeward"):
        _append(opened)
    log.unlink()
    seen = _heard(opened)
    opened.publish()
    assert opened.wait_for_listeners()

    ((name, event),) = seen
    assert name == "published"
    assert (event.transaction_id, event.versions, event.seconds) == (None, {"t": 1}, None)


def test_a_listener_that_hangs_delays_neither_commits_nor_other_listeners(
    opened: lw.Lake,
) -> None:
    release, seen = threading.Event(), []
    opened.on("commit", lambda _: release.wait(60))
    opened.on("commit", lambda event: seen.append(event.versions["t"]))
    try:
        for n in range(3):
            _append(opened, n + 1)
        assert not opened.wait_for_listeners(timeout=0.2)
        deadline = time.monotonic() + 30
        while len(seen) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert seen == [1, 2, 3]
    finally:
        release.set()


def test_events_beyond_the_bound_are_dropped_and_counted(
    opened: lw.Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delivery, "_WAITING", 2)
    release, seen = threading.Event(), []

    def slow(event: lw.CommitEvent) -> None:
        release.wait(60)
        seen.append(event.versions["t"])

    opened.on("commit", slow)
    with caplog.at_level(logging.WARNING, "lakeward"):
        for n in range(5):
            _append(opened, n + 1)
    release.set()
    assert opened.wait_for_listeners()

    assert seen == [1, 2]
    assert opened.counters()["events_dropped"] == 3
    (warning,) = [r.getMessage() for r in caplog.records]
    assert "slow" in warning


def test_a_process_that_ends_without_closing_the_lake_delivers_what_waits(tmp_path: Path) -> None:
    code = f"""
import time, lakeward as lw
lake = lw.open({str(tmp_path / "lake")!r})
lake.create("t", {{"id": "int64"}})
lake.on("commit", lambda event: (time.sleep(0.3), print(event.versions["t"])))
lake.table("t").append([{{"id": 1}}])
lake.table("t").append([{{"id": 2}}])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["1", "2"], done.stderr


def test_a_named_listener_goes_on_where_it_was_and_hears_all_lake_objects(
    lake: lw.Lake, name: str, make_lake: Callable[[], lw.Lake]
) -> None:
    lake.create(name, SCHEMA)
    seen: list[int] = []

    def note(event: lw.CommitEvent) -> None:
        if name in event.versions:
            seen.append(event.versions[name])

    own = f"index of {name}"
    lake.on("commit", note, name=own)
    lake.table(name).append([{"id": 1}])
    assert lake.wait_for_listeners()
    lake.off("commit", note)
    other = make_lake()
    other.table(name).append([{"id": 2}])
    other.table(name).append([{"id": 3}])
    other.on("commit", note, name=own)
    assert other.wait_for_listeners()

    assert seen == [1, 2, 3]
    assert f"listener:{own}" in {c.name for c in lake.consumers()}


def test_a_named_listener_that_raises_gets_the_commit_again(
    opened: lw.Lake, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[int] = []

    def flaky(event: lw.CommitEvent) -> None:
        seen.append(event.versions["t"])
        if len(seen) < 3:
            what = "no network"
            raise OSError(what)

    opened.on("commit", flaky, name="index")
    with caplog.at_level(logging.CRITICAL, "lakeward"):
        _append(opened)
        _append(opened)
        assert opened.wait_for_listeners()

    assert seen == [1, 1, 1, 2]


def test_a_named_listener_that_was_killed_gets_again_what_it_was_not_done_with(
    tmp_path: Path,
) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", SCHEMA)
    code = f"""
import os, lakeward as lw
lake = lw.open({str(tmp_path / "lake")!r})
lake.on("commit", lambda event: event.versions["t"] == 2 and os._exit(9), name="index")
for n in range(3):
    lake.table("t").append([{{"id": n}}])
lake.wait_for_listeners()
"""
    died = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert died.returncode == 9, died.stderr
    seen: list[int] = []
    with lw.open(tmp_path / "lake") as lake:
        newest = lake.table("t").version
        lake.on("commit", lambda event: seen.append(event.versions["t"]), name="index")
        assert lake.wait_for_listeners()

    assert 2 in seen
    assert seen == list(range(seen[0], newest + 1))


def test_named_listeners_that_make_no_sense_are_refused(opened: lw.Lake) -> None:
    with pytest.raises(InvalidInput, match="gets commits from the log"):
        opened.on("failed", print, name="x")
    opened.on("commit", print, name="x")
    with pytest.raises(InvalidInput, match="has a listener 'x' already"):
        opened.on("commit", repr, name="x")
