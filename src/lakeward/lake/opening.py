"""Opening a lake: its store, its warehouse, and what dead processes left behind."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.log import locks, pins, transactions
from lakeward.log.connect import connect
from lakeward.log.database import Database
from lakeward.model import arguments
from lakeward.read.parts import Parts
from lakeward.storage.attach import attach
from lakeward.storage.base import Storage
from lakeward.write.branch_directory import sweep
from lakeward.write.merge_memory import allowed as merge_memory_allowed
from lakeward.write.publish import recover


def opened(
    target: str | Path,
    warehouse: str | Path | None,
    storage_options: Mapping[str, str] | None,
    *,
    create: bool,
    actor: str | None,
    merge_memory: int | None,
) -> Parts:
    """The parts of a lake, as `lakeward.open` is asked for them.

    Raises:
        InvalidInput: Something asked for makes no sense. Nothing was made.
        StoreError: The store cannot be opened, or there is none and none shall be made.
    """
    arguments.optional_text(actor, "actor")
    target = arguments.place(target, "target")
    memory = merge_memory_allowed(merge_memory)
    place, given = _warehouse(target, warehouse), _options(storage_options)
    storage, database = _connected(target, place, given, create=arguments.flag(create, "create"))
    return Parts(database, storage, actor or _actor(), _engine(), memory)


def repair(parts: Parts) -> None:
    """Close what dead processes left open, delete what they left lying, publish what they owed."""
    database = parts.database
    with database.read() as session:
        now = database.clock_ms(session)
        stale = any(r.lease_until_ms < now for r in transactions.still_open(session))
        stale = stale or pins.any_stale(session, now)
    if stale:
        with database.write() as session:
            transactions.expire(session, now)
            pins.expire(session, now)
            locks.sweep(session)
    sweep(parts)
    recover(parts)


def _connected(
    target: str, place: str, given: Mapping[str, Any], *, create: bool
) -> tuple[Storage, Database]:
    """A warehouse and a store; where one of them cannot be opened, the other is not made."""
    if create:
        return attach(place, given), connect(target)
    database = connect(target, create=False)
    try:
        return attach(place, given), database
    except BaseException:
        database.close()
        raise


def _warehouse(target: str, warehouse: str | Path | None) -> str:
    place = target if warehouse is None else arguments.place(warehouse, "warehouse")
    if warehouse is None and place.startswith("postgres") and "://" in place:
        what = "A lake on a database server needs a warehouse for its files."
        raise InvalidInput(what, hint="Give warehouse=, or --warehouse on the command line.")
    return place


def _options(given: Mapping[str, str] | None) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        # What it is may be a secret.
        what = (
            f"`storage_options` must be a mapping of names to values, not {type(given).__name__}."
        )
        raise InvalidInput(what, parameter="storage_options")
    return arguments.mapping(given, "storage_options")


def _actor() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = f"uid {os.getuid()}"
    return f"{user}@{socket.gethostname()}"


def _engine() -> str:
    try:
        return f"Lakeward/{version('lakeward')}"
    except PackageNotFoundError:
        return "Lakeward"
