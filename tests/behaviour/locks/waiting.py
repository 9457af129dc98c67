"""What tests of locks do over and over: work in a thread, and wait until somebody waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import Locked

_PATIENCE_SECONDS = 30.0


def numbered(lake: lw.Lake, number: int, table: str, **options: Any) -> lw.Transaction:
    """A transaction; of those of one test the one with the largest number counts as the youngest.

    They must begin in that order: within a millisecond their ids decide.
    """
    chosen = f"{number}-{table.replace('.', '-')}"
    return lake.transaction(transaction_id=chosen, **options)


def is_free(lake: lw.Lake, name: str, mode: str = "write") -> bool:
    """Whether somebody new would get the lock at once."""
    tx = lake.transaction()
    try:
        tx.lock(name, mode=mode, timeout=0)
    except Locked:
        return False
    finally:
        tx.rollback()
    return True


def refused(tx: lw.Transaction, name: str, mode: str = "write") -> Locked:
    """The error of a lock that is not to be had now."""
    with pytest.raises(Locked) as caught:
        tx.lock(name, mode=mode, timeout=0)
    return caught.value


def until_waits(lake: lw.Lake, name: str, *transaction_ids: str) -> None:
    """Return when these, or anybody, wait for a table that somebody holds."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        for lock in lake.locks():
            waiting = {w.transaction_id for w in lock.waiters}
            if lock.table == name and waiting and waiting >= set(transaction_ids):
                return
        time.sleep(0.002)
    message = f"nobody waits for {name}: {lake.locks()}"
    raise TimeoutError(message)


@contextmanager
def meanwhile(work: Callable[[], Any]) -> Generator[Future[Any]]:
    """Do something in a thread while the block runs; it must end, one way or another, soon."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        yield future
        future.exception(_PATIENCE_SECONDS)
