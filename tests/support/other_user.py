"""A process of another user, who may read a test's lake and write nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import lakeward as lw
from tests.support.processes import Worker, start

NOBODY = 65534
IS_ROOT = os.geteuid() == 0

Task = Callable[[lw.Lake], Any]


@contextmanager
def open_to_readers() -> Generator[Path]:
    """A directory that every user may enter and read; pytest's own are closed to others."""
    path = Path(tempfile.mkdtemp(prefix="lakeward-readers-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        _let_owner_write(path)
        shutil.rmtree(path)


@contextmanager
def without_permission(path: Path) -> Generator[None]:
    """Nobody may write below a directory; root is not bound by it, but other users are."""
    places = [path, *path.rglob("*")]
    for place in places:
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        yield
    finally:
        _let_owner_write(path)


@contextmanager
def reader_of(place: Path, warm: Path, **options: Any) -> Generator[Worker]:
    """A process that opened a lake as a user who may not write it; see `ask`.

    Args:
        place: The lake.
        warm: A lake of the same tables, for it to load all modules before it becomes another user,
            who may not be able to read Python's own files.
        **options: For `lw.open`.
    """
    worker = start(_serve, place, warm, options)
    try:
        yield worker
    finally:
        worker.tell(None)
        worker.process.join(60)


def ask(worker: Worker, task: Task) -> Any:
    """Have a function of a module called with the reader's lake; its answer, or its error."""
    worker.tell(task)
    return worker.hear()


def _serve(pipe: Connection, place: Path, warm: Path, options: dict[str, Any]) -> None:
    import_module("tests.behaviour.lakes")  # which the modules of tasks import
    with lw.open(warm, read_only=True) as other:
        for table in other.tables():
            table.to_arrow()
            table.at().files(where="id > 0")
    if IS_ROOT:
        os.setgroups([])
        os.setegid(NOBODY)
        os.seteuid(NOBODY)
    lake: lw.Lake | None = None
    while (task := pipe.recv()) is not None:
        try:
            lake = lw.open(place, **options) if lake is None else lake
            pipe.send(task(lake))
        except Exception as error:  # noqa: BLE001  the test looks at it
            pipe.send(error)
    if lake is not None:
        lake.close()


def _let_owner_write(path: Path) -> None:
    for place in (path, *path.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
