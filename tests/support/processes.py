"""Other processes for the tests: forked from a clean, warm server, so that they start at once.

The fork server is started by `exec` and has loaded the library but used none of it, so its children
inherit no running thread, no connection and no lock of the test that asked for them.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any, TypeVarTuple

from lakeward.model import steps

Ts = TypeVarTuple("Ts")

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "tests.support.preloaded",
        # What the module of a test imports, which its processes import again.
        "lakeward.web.app",
        "psycopg",
        "pyiceberg.table",
        "pytest",
        "sqlglot.dialects.databricks",
        "tests.support.invariants",
        "tests.support.target",
        "time_machine",
    ]
)


@dataclass
class Worker:
    """A process, and what it has said so far."""

    process: ForkServerProcess
    pipe: Connection
    said: list[Any] = field(default_factory=list)

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process.pid is not None
        return self.process.pid

    @property
    def killed(self) -> bool:
        """Whether it ended by SIGKILL."""
        return self.process.exitcode == -signal.SIGKILL

    def tell(self, message: Any) -> None:
        """Send it a message, which it takes from its pipe."""
        self.pipe.send(message)

    def hear(self) -> Any:
        """Its next message; EOFError when it ended."""
        message = self.pipe.recv()
        self.said.append(message)
        return message

    def finish(self, timeout: float = 900.0) -> list[Any]:
        """Wait until it ends, by itself or killed; all that it said, up to its last instruction."""
        while self.pipe.poll(timeout):
            try:
                self.hear()
            except (EOFError, ConnectionResetError):
                break
        else:
            self.process.kill()
            message = f"process {self.pid} said nothing for {timeout} s and was killed"
            raise TimeoutError(message)
        self.process.join(timeout)
        self.pipe.close()
        return self.said


def start(target: Callable[[Connection, *Ts], None], *args: *Ts) -> Worker:
    """Run `target(pipe, *args)` in a process of its own.

    Args:
        target: A function of a module; what it sends through the pipe is heard even when it is
            killed right after.
        *args: Must be picklable.
    """
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=target, args=(theirs, *args), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)


@contextmanager
def started(
    count: int, target: Callable[[Connection, int, *Ts], None], *args: *Ts
) -> Generator[list[Worker]]:
    """So many processes that run `target(pipe, number, *args)`, let go together.

    Each must send one message when it is ready and then wait for one.
    """
    workers = [start(target, number, *args) for number in range(count)]
    try:
        for worker in workers:
            worker.hear()
        for worker in workers:
            worker.tell("go")
        yield workers
    finally:
        for worker in workers:
            if worker.process.is_alive():
                worker.process.kill()
            worker.process.join()


def kill_myself_at(step: str, occurrence: int) -> None:
    """SIGKILL this process when it reaches a step for the n-th time from now."""
    left = occurrence

    def observer(reached: str) -> None:
        nonlocal left
        if reached != step:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    steps.observe(observer)
