"""Opens the store and the warehouse of a lake, and repairs what dead processes left."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, LakeNotFound, WrongWarehouse
from lakeward.log import binding, heads, pins, transactions
from lakeward.log.binding import Binding
from lakeward.log.database import Database
from lakeward.log.drivers.connect import connect
from lakeward.maintain import ownership
from lakeward.model import arguments
from lakeward.model.cache import Cache, cache_asked
from lakeward.storage.attach import attach
from lakeward.storage.base import Storage
from lakeward.write.branch.directory import sweep
from lakeward.write.commit.publications import recover
from lakeward.write.plan.memory import memory_allowed


def opened(
    target: str | Path,
    warehouse: str | Path | None,
    storage_options: Mapping[str, str] | None,
    *,
    create: bool,
    actor: str | None,
    merge_memory: int | None,
    take_over: bool,
    repair: bool,
    read_only: bool | None,
    cache: Cache | bool | None = None,
) -> LakeContext:
    """Open or create a store and a warehouse; the arguments are those of `lakeward.open`."""
    kept = cache_asked(cache)
    arguments.optional_text(actor, "actor")
    target = arguments.place(target, "target")
    memory = memory_allowed(merge_memory)
    given = _options(storage_options)
    asked = None if warehouse is None else arguments.place(warehouse, "warehouse")
    take_over = arguments.flag(take_over, "take_over")
    create = arguments.flag(create, "create")
    if read_only is not None:
        read_only = arguments.flag(read_only, "read_only")
    storage, database = _connected(
        target,
        asked,
        given,
        create=create and not read_only,
        take_over=take_over,
        bind=repair,
        read_only=read_only,
    )
    with database.read() as session:
        bound = binding.read(session)
    context = LakeContext(database, storage, actor or _actor(), memory, bound)
    storage.use_cache(kept, context.counters.add)
    return context


def unchecked(
    target: str | Path, warehouse: str | Path | None, storage_options: Mapping[str, str] | None
) -> LakeContext:
    """Open an existing lake without checking that its store and warehouse belong together."""
    target, given = arguments.place(target, "target"), _options(storage_options)
    asked = None if warehouse is None else arguments.place(warehouse, "warehouse")
    database = connect(target, create=False)
    try:
        with database.read() as session:
            bound = binding.read(session)
        storage = attach(asked or _warehouse(target, bound), given)
    except BaseException:
        database.close()
        raise
    return LakeContext(database, storage, _actor(), memory_allowed(None))


def table_names(target: str) -> list[str]:
    """Read the names of a lake's tables from its store, without creating or repairing anything."""
    found = connect(target, create=False, read_only=None)
    with closing(found) as database, database.read() as session:
        return [str(name) for name in heads.names(session)]


def repair(context: LakeContext) -> None:
    """Roll back transactions of dead processes, delete their branches, publish missing files."""
    database = context.database
    with database.read() as session:
        now = database.clock_ms(session)
        stale = any(r.lease_until_ms < now for r in transactions.still_open(session))
        stale = stale or pins.any_stale(session, now)
    if stale:
        from lakeward.log import locks

        with database.write() as session:
            transactions.expire(session, now)
            pins.expire(session, now)
            locks.sweep(session)
    sweep(context)
    recover(context)


def _connected(
    target: str,
    asked: str | None,
    given: Mapping[str, Any],
    *,
    create: bool,
    take_over: bool,
    bind: bool,
    read_only: bool | None = False,
) -> tuple[Storage, Database]:
    """Open or make a warehouse and a store that belong together; if one fails, make neither."""
    try:
        database = connect(target, create=False, read_only=read_only)
    except LakeNotFound as missing:
        if not create:
            raise _lost(target, asked, missing) from missing
        return _made(target, asked, given, take_over=take_over)
    try:
        if take_over:
            database.check_writable()
        with database.read() as session:
            bound = binding.read(session)
        place = asked or _warehouse(target, bound)
        storage = attach(place, given, read_only=database.read_only is not None)
        ownership.check_and_bind(database, storage, given, take_over=take_over, bind=bind)
    except BaseException:
        database.close()
        raise
    return storage, database


def _lost(target: str, asked: str | None, missing: LakeNotFound) -> LakeNotFound:
    """Return the error for a missing store; if there are published tables, it was lost."""
    place = asked or target
    if "://" in place or not ownership.has_tables(Path(place).expanduser().absolute()):
        return missing
    what = f"{missing.what} There are published tables below {place}, so the store was lost."
    hint = "Make it again from the tables with `lakeward rebuild`, or put a backup in its place."
    return LakeNotFound(what, hint=hint, **missing.facts)


def _made(
    target: str, asked: str | None, given: Mapping[str, Any], *, take_over: bool
) -> tuple[Storage, Database]:
    """Make a store for a warehouse that has none, or whose store is to be replaced."""
    storage = attach(asked or _warehouse(target, None), given)
    try:
        ownership.check_free(storage, take_over=take_over)
    except WrongWarehouse as error:
        # Another process may have made this store meanwhile.
        try:
            return _connected(target, asked, given, create=False, take_over=False, bind=False)
        except LakeNotFound:
            raise error from None
    database = connect(target)
    try:
        ownership.check_and_bind(database, storage, given, take_over=take_over, bind=True)
    except BaseException:
        database.close()
        raise
    return storage, database


def _warehouse(target: str, bound: Binding | None) -> str:
    """Return the warehouse of a lake that is opened without `warehouse`.

    Raises:
        InvalidInput: The store is on a database server and records no warehouse.
    """
    recorded = ownership.default_warehouse(target, bound)
    if recorded is None and target.startswith("postgres") and "://" in target:
        what = "A lake on a database server needs a warehouse for its files."
        raise InvalidInput(what, hint="Give warehouse=, or --warehouse on the command line.")
    return recorded or target


def _options(given: Mapping[str, str] | None) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        # The value may be a secret, so the message has only its type.
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
