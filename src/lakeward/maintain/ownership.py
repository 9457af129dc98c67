"""Checks that a store and a warehouse belong together, whenever a lake is opened.

The store records an identity and the location of its warehouse; a marker file in the warehouse
holds the identity and the location of its store. Refused are a warehouse without the store's
identity, a store to which the marker does not refer, and a copy of a warehouse while the original
exists. A lake that is one directory may be moved: its marker refers to the store by a path below
the warehouse.

The marker is written with put-if-absent, inside the database transaction that records the identity.
If a process dies between the two, the next one to open the lake completes it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import orjson

from lakeward.errors import FileMissing, LakewardError, StorageError, WrongWarehouse
from lakeward.formats.directories import LOG_DIRECTORY, METADATA_DIRECTORY
from lakeward.log import binding, heads
from lakeward.log.binding import Binding
from lakeward.log.database import Database, Session
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.model.steps import reach
from lakeward.storage.attach import attach
from lakeward.storage.base import Storage

MARKER: Final = "_lakeward/warehouse.json"
RELOCATE: Final = "If the lake was moved or copied, run `lakeward relocate`."
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Marker:
    """The identity that the store records too, and the store's location.

    The location is a path below the warehouse, a full path, or a server's ids.
    """

    identity: str
    store: str


def read_marker(storage: Storage) -> Marker | None:
    """Return the marker of a warehouse, or None; raise `WrongWarehouse` if it cannot be parsed."""
    try:
        data = storage.read(MARKER)
    except FileMissing:
        return None
    try:
        found: dict[str, str] = orjson.loads(data)
        return Marker(found["identity"], found["store"])
    except (KeyError, TypeError, orjson.JSONDecodeError) as error:
        what = f"{MARKER} in {storage.root} cannot be understood."
        hint = "Restore the file from a backup of the warehouse, or run `lakeward relocate`."
        raise WrongWarehouse(what, hint=hint, warehouse=storage.root) from error


def write_marker(storage: Storage, marker: Marker) -> None:
    """Write the marker; replace an earlier one."""
    storage.put(MARKER, orjson.dumps(asdict(marker)))


def has_tables(directory: Path) -> bool:
    """Return whether a directory holds published tables, at most two levels down, as in a lake."""
    logs = (LOG_DIRECTORY, f"{METADATA_DIRECTORY}/*.metadata.json")
    with suppress(OSError):
        return any(
            next(directory.glob(f"{above}/{log}"), None) for above in ("*", "*/*") for log in logs
        )
    return False


def default_warehouse(target: str, bound: Binding | None) -> str | None:
    """Return the warehouse of a lake opened without one; None if the store records none."""
    if bound is None:
        return None
    beside = not is_remote(bound.warehouse) and str(Path(bound.store).parent) == bound.warehouse
    return target if beside else bound.warehouse


def check_free(storage: Storage, *, take_over: bool) -> None:
    """Raise if a warehouse has a store already; with `take_over` only if that store exists."""
    marker = read_marker(storage)
    if marker is None:
        return
    if not take_over:
        raise taken(storage, marker)
    _check_gone(storage, marker)


def check_and_bind(
    database: Database, storage: Storage, given: Mapping[str, Any], *, take_over: bool, bind: bool
) -> None:
    """Check that a store and a warehouse belong together; bind them if neither is bound yet.

    Args:
        database: The store.
        storage: The warehouse with which the store is opened.
        given: Storage options, to examine the recorded warehouse if it is another one.
        take_over: Bind a store without tables to a warehouse whose own store no longer exists.
        bind: Whether a store of an earlier version, which has tables, may be bound now.

    A store that is open read-only is only checked.
    """
    marker = read_marker(storage)
    with database.read() as session:
        bound = binding.read(session)
        own = own_place(database, session, storage)
        known = heads.all_heads(session) if bound is None or take_over else []
    if bound is not None and not _belong(bound, marker, own) and take_over and not known:
        bound = None
    if bound is not None:
        _check(bound, marker, storage, own, given)
    elif marker is not None and marker.store != own:
        if not take_over or known:
            raise taken(storage, marker)
        _check_gone(storage, marker)
        _bind(database, storage, marker, anew=True)
    elif database.read_only is not None:
        check_found(storage, known)
    elif not known or (check_found(storage, known) and bind):
        try:
            _bind(database, storage, marker, anew=take_over and marker is not None)
        except StorageError:
            # Readers without the right to write still read what an earlier version made.
            if not known:
                raise


def own_place(database: Database, session: Session, storage: Storage) -> str:
    """Return the store's location as in the marker: relative if it is below the warehouse."""
    place = database.place(session)
    return place if storage.is_remote or not place.startswith("/") else storage.locate(place)


def rebind(database: Database, session: Session, storage: Storage) -> None:
    """Create a new identity; write it to the warehouse and, in `session`, to the store."""
    identity = uuid4().hex
    write_marker(storage, Marker(identity, own_place(database, session, storage)))
    reach("bind.marked")
    binding.write(session, Binding(identity, _full(storage), database.place(session), storage.root))


def _bind(database: Database, storage: Storage, seen: Marker | None, *, anew: bool) -> None:
    """Record one identity in store and warehouse, unless another process already did.

    With `anew` the marker `seen` is replaced, so that its former store is refused from now on.
    """
    with database.write() as session:
        database.lock_schema(session)
        own = own_place(database, session, storage)
        bound = binding.read(session)
        if bound is not None and _belong(bound, read_marker(storage), own):
            return
        if anew:
            rebind(database, session, storage)
            return
        marker = seen or Marker(uuid4().hex, own)
        if seen is None and not storage.put_if_absent(MARKER, orjson.dumps(asdict(marker))):
            found = read_marker(storage)
            if found is None or found.store != own:
                raise taken(storage, found)
            marker = found
        storage.sync_names([MARKER])
        reach("bind.marked")
        place = database.place(session)
        binding.write(session, Binding(marker.identity, _full(storage), place, storage.root))


def _belong(bound: Binding, marker: Marker | None, own: str) -> bool:
    return marker is not None and (marker.identity, marker.store) == (bound.identity, own)


def _check(
    bound: Binding, marker: Marker | None, storage: Storage, own: str, given: Mapping[str, Any]
) -> None:
    facts = {"warehouse": storage.root, "recorded": bound.warehouse}
    if marker is None or marker.identity != bound.identity:
        what, hint = _not_ours(bound, marker, storage, own)
        raise WrongWarehouse(what, hint=hint, **facts)
    if marker.store != own:
        what = f"The warehouse {storage.root} belongs to {_named(storage, marker)}, not to {own}."
        hint = f"Open that store. {RELOCATE}"
        raise WrongWarehouse(what, hint=hint, **facts)
    if bound.warehouse == _full(storage):
        return
    # A path may differ from host to host; a URL of an object store is the same everywhere.
    may_differ = not storage.is_remote and not is_remote(bound.warehouse)
    separate = own.startswith("/")
    if not may_differ or separate or _is_there(bound, given):
        what = (
            f"{storage.root} is a copy of the lake's warehouse {bound.warehouse}, which the store"
            " records."
        )
        hint = f"Open the lake with {bound.warehouse}. {RELOCATE}"
        raise WrongWarehouse(what, hint=hint, **facts)


def _not_ours(bound: Binding, marker: Marker | None, storage: Storage, own: str) -> tuple[str, str]:
    """Return the message and hint for a warehouse that does not hold the store's identity."""
    if bound.warehouse != _full(storage):
        what = f"{storage.root} is not the warehouse of this store, which is {bound.warehouse}."
        return what, f"Open the lake without warehouse=, or with {bound.warehouse}. {RELOCATE}"
    if marker is not None and marker.store == own:
        what = f"The warehouse {storage.root} knows this store by another identity."
        hint = "An older store was put back, or a command was cut off: run `lakeward relocate`."
        return what, hint
    if marker is None:
        what = f"The lake's warehouse {storage.root} is not there, or has lost {MARKER}."
        return what, f"Restore it. {RELOCATE}"
    what = f"The warehouse {storage.root} was taken over by {_named(storage, marker)}."
    return what, "Open that store."


def _is_there(bound: Binding, given: Mapping[str, Any]) -> bool:
    """Return whether the recorded warehouse still exists with the store's identity."""
    with suppress(LakewardError):
        marker = read_marker(attach(bound.warehouse, given))
        return marker is not None and marker.identity == bound.identity
    return False


def _check_gone(storage: Storage, marker: Marker) -> None:
    """Raise `WrongWarehouse` if the SQLite file of a warehouse's former store still exists."""
    path = _store_path(storage, marker)
    if path is not None and path.exists():
        what = f"The warehouse {storage.root} belongs to the store {path}, which still exists."
        hint = "Move that file away first, with those beside it (-wal, -shm)."
        raise WrongWarehouse(what, hint=hint, warehouse=storage.root, store=str(path))


def check_found(storage: Storage, known: list[Head]) -> bool:
    """Return whether a warehouse has all tables of a store; raise `WrongWarehouse` if none."""
    inside = [h for h in known if not is_full(h.location) and h.published >= 0]
    missing = [str(h.name) for h in inside if not _is_found(storage, h)]
    if missing and len(missing) == len(inside):
        what = f"{storage.root} holds none of the tables of this store ({', '.join(missing[:3])})."
        hint = "Give the warehouse that holds them with warehouse=, or --warehouse."
        raise WrongWarehouse(what, hint=hint, warehouse=storage.root)
    if missing:
        _LOG.warning(
            "%s lacks tables of this store, so it is not recorded as its warehouse: %s.",
            storage.root,
            ", ".join(missing),
        )
    return not missing


def _is_found(storage: Storage, head: Head) -> bool:
    directory = LOG_DIRECTORY if head.pointer is None else METADATA_DIRECTORY
    return next(iter(storage.listing(f"{head.location}/{directory}")), None) is not None


def taken(storage: Storage, marker: Marker | None) -> WrongWarehouse:
    """Return the error that a warehouse belongs to another store."""
    store = "another store" if marker is None else _named(storage, marker)
    what = f"The warehouse {storage.root} belongs to {store}."
    hint = "Open that store. If it is lost, make a new one with `lakeward rebuild`."
    return WrongWarehouse(what, hint=hint, warehouse=storage.root)


def _named(storage: Storage, marker: Marker) -> str:
    path = _store_path(storage, marker)
    return f"the store {path}" if path is not None else "a store in a PostgreSQL database"


def _store_path(storage: Storage, marker: Marker) -> Path | None:
    if marker.store.startswith("postgresql:"):
        return None
    return Path(storage.uri("")) / marker.store if not storage.is_remote else Path(marker.store)


def _full(storage: Storage) -> str:
    """Return the full path (symbolic links resolved) or URL of a warehouse."""
    return storage.root if storage.is_remote else os.path.realpath(storage.root)


def is_remote(place: str) -> bool:
    """Return whether a warehouse is in an object store, by its full path or URL."""
    return "://" in place
