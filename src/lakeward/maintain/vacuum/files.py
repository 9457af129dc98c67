"""Classifies the files below a table's directory by what the log records of them.

The files are listed before the log is read: a file that was listed and then committed is in the
log, and a file that is staged after the listing is not in the list.
"""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.formats.delta.vectors import mark_in, marks
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.registry import publishers
from lakeward.log import branches, integrity, reach, transactions, unrecorded
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.maintain.doctor.file_checks import vector_paths
from lakeward.maintain.vacuum.kept import Kept
from lakeward.model.commit import Head, TransactionState
from lakeward.model.file import LIVE, is_full
from lakeward.storage.base import Storage, StoredFile

_STAGED: Final = re.compile(r"(?:part|cdc)-\d{5,}-([A-Za-z0-9_-]+)(?:\.\w+)*\.parquet")
_BRANCH: Final = re.compile(r"(?:txn|branch)-([A-Za-z0-9_-]+)")
_CHANGES: Final = "_change_data"
_CHECKSUM: Final = re.compile(r"(?:^|/)\.[^/]+\.crc$")
_HIDDEN: Final = ("_", ".")
_UNUSUAL: Final = ("\n/", "\n./", "//", "/./", ":")
"""Text that occurs in joined paths if one is full, or not written as files are listed."""
Listed = dict[str, StoredFile | None]
Row = tuple[str, str | None]
"""A path and a deletion vector (JSON), as in the log."""


class Why(StrEnum):
    """Why a file can be deleted."""

    OLD = "only versions outside the retention need it"
    CHANGES = "it has the changes of a version outside the retention"
    LEFT = "its transaction ended without using it"
    DROPPED = "its table was dropped"
    UNKNOWN = "neither the log nor a transaction knows it"


@dataclass(slots=True)
class Sorted:
    """Names of files below a table's directory that no kept version needs."""

    deletable: dict[Why, list[str]] = field(default_factory=lambda: defaultdict(list))
    unknown: list[str] = field(default_factory=list)


def listed(storage: Storage, head: Head, *, hidden: bool = False) -> Listed:
    """List the files of a table's directory that may hold rows; with `hidden` also its metadata."""
    if hidden:
        return dict(storage.walk(head.location))
    aside = any(p.has_catalog for p in publishers(head))
    metadata = (f"{METADATA_DIRECTORY}/",) if aside else ()
    found = storage.walk(head.location)
    # Inlined: a function call for each of a million names would take most of the time.
    out = {
        name: facts
        for name, facts in found
        if not (name.startswith(_HIDDEN) or "/_" in name or "/." in name) or not is_hidden(name)
    }
    return {n: f for n, f in out.items() if not n.startswith(metadata)} if metadata else out


def metadata_names(head: Head, names: Iterable[str]) -> list[str]:
    """Return the names of published files, and of the checksum files that Hadoop writes."""
    metadata = tuple(f"{p.metadata_directory}/" for p in publishers(head))
    return [n for n in names if n.startswith(metadata) or _CHECKSUM.search(n)]


def foreign_refs(context: LakeContext, session: Session, head: Head) -> dict[str, int]:
    """Return tags and branches of a table made by other engines, with their snapshot ids."""
    out: dict[str, int] = {}
    for publisher in publishers(head):
        out |= publisher.foreign_refs(context, session, head)
    return out


def named_since(context: LakeContext, session: Session, head: Head) -> set[str]:
    """Return the names of files below the head's directory that later versions added."""
    names: set[str] = set()
    inside = _Inside(context.storage, head)
    _take_all(inside, reach.added_since(session, head.table_id, head.version), names, set())
    return names


def named_by_others(context: LakeContext, session: Session, head: Head) -> set[str]:
    """Return the names of files below the head's directory whose full paths other tables have."""
    names: set[str] = set()
    inside = _Inside(context.storage, head)
    _take_all(inside, reach.full_paths_of_others(session, head.table_id), names, set())
    return names


def sort(
    context: LakeContext,
    session: Session,
    head: Head,
    names: Iterable[str],
    kept: Kept,
    refs: Mapping[str, int],
) -> Sorted:
    """Classify the listed files by what the log records of them."""
    rest, elsewhere, old = _unneeded(context, session, head, names, kept, refs)
    changes = dict(reach.change_paths(session, head.table_id))
    others = _places_inside(context, session, head)
    working = branches.live_directories(session, head.table_id)
    owners, taken = _Owners(session), unrecorded.claimed(session, head.table_id)
    out = Sorted()
    if elsewhere:
        rest = {name for name in rest if name.rpartition("/")[2] not in elsewhere}
    if others:
        rest = {name for name in rest if not name.startswith(others)}
    gone = rest & old
    if gone:
        out.deletable[Why.OLD] = list(gone)
    for name in sorted(rest - gone):
        if name in changes:
            if changes[name] < kept.kept_from:
                out.deletable[Why.CHANGES].append(name)
        elif name not in taken and name.partition("/")[0] not in working:
            over = owners.is_over(name)
            if over is True:
                out.deletable[Why.LEFT].append(name)
            elif over is None:
                out.unknown.append(name)
    return out


def is_hidden(name: str) -> bool:
    """Return whether engines ignore a file by its name; files in `_change_data` are not hidden."""
    first, _, rest = name.partition("/")
    parts = rest.split("/") if first == _CHANGES else name.split("/")
    return any(p.startswith(_HIDDEN) and "=" not in p for p in parts)


def _places_inside(context: LakeContext, session: Session, head: Head) -> tuple[str, ...]:
    """Return directories below a table's own that are not its own: other tables, the warehouse."""
    uri, root = context.storage.uri, f"{context.storage.uri(head.location)}/"
    places = [uri(at) for at in integrity.other_locations(session, head.table_id)]
    return tuple(
        f"{place.removeprefix(root)}/"
        for place in (*places, context.storage.root)
        if place.startswith(root)
    )


def _unneeded(
    context: LakeContext,
    session: Session,
    head: Head,
    names: Iterable[str],
    kept: Kept,
    refs: Mapping[str, int],
) -> tuple[set[str], set[str], set[str]]:
    """Return names that no kept version needs, base names of needed files elsewhere, old names.

    Old names are those that the log has only of versions that are not kept. In a lake that was
    moved, the log may have files of this directory by their old full paths, so a file is kept if
    its base name is that of a needed file elsewhere.
    """
    rest = set(names)
    elsewhere: set[str] = set()
    old: set[str] = set()
    inside = _Inside(context.storage, head)

    def keep(rows: Iterable[Row]) -> None:
        # A set of all needed names would take more time and memory in a large table.
        needed: set[str] = set()
        _take_all(inside, rows, needed, elsewhere)
        rest.difference_update(needed)

    for rows in reach.needed_paths(session, head.table_id, kept.kept_from):
        keep(rows)
    for rows in reach.old_paths(session, head.table_id, kept.kept_from):
        held, over = _divided(rows, kept.held)
        keep(held)
        _take_all(inside, over, old, set())
    keep(reach.full_paths_of_others(session, head.table_id))
    for earlier, versions in kept.earlier.items():
        # Tags, clones and branches of a dropped table hold files that this one took over.
        for rows in reach.old_paths(session, earlier, LIVE) if versions else ():
            keep(_divided(rows, sorted(versions))[0])
    for publisher in publishers(head):
        paths = publisher.files_of_refs(context, head, refs)
        keep((path, None) for path in paths)
    return rest, elsewhere, old


def _divided(rows: Sequence[Any], held: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """Return the rows that a held version needs, and the others; both without their versions."""
    if not held:
        return [], [(path, vector) for path, vector, _, _ in rows]
    needed: list[Row] = []
    over: list[Row] = []
    for path, vector, low, high in rows:
        (needed if reach.is_held(held, low, high) else over).append((path, vector))
    return needed, over


def _take_all(inside: _Inside, rows: Iterable[Row], names: set[str], elsewhere: set[str]) -> None:
    """Add to `names` the files and vectors below the directory, to `elsewhere` other base names."""
    known = list(rows)
    plain = [row[0] for row in known]
    places = [p for row in known if row[1] is not None for p in vector_paths(loads(row[1]))]
    # One search in all paths together is much faster than one in each path.
    lines = "\n" + "\n".join(plain)
    if any(sign in lines for sign in _UNUSUAL):
        places += plain
    else:
        names.update(plain)
    for place in places:
        name = inside.name(place)
        if name is not None:
            names.add(name)
        else:
            elsewhere.add(place.rpartition("/")[2])


class _Inside:
    """Finds which full paths in the log are below a table's directory."""

    def __init__(self, storage: Storage, head: Head) -> None:
        self._storage = storage
        self._root = f"{storage.uri(head.location)}/"

    def name(self, place: str) -> str | None:
        """Return the path relative to the directory, as files are listed; None if elsewhere."""
        if not is_full(place) and not place.startswith("file:"):
            return posixpath.normpath(place)
        try:
            full = self._storage.path_of(place)
        except LakewardError:
            return None
        full = posixpath.normpath(full) if full.startswith("/") else full
        return full.removeprefix(self._root) if full.startswith(self._root) else None


class _Owners:
    """Finds the transaction that wrote a file, from the file's name."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, TransactionState | None] = {}
        self._marks: dict[bytes, str] | None = None

    def is_over(self, name: str) -> bool | None:
        """Return whether a file's transaction has ended; None if no known one wrote it."""
        own = name.rpartition("/")[2]
        state = self._state(own, name.partition("/")[0])
        if state is None and own.endswith(".bin"):
            state = self._state_of_vectors(own)
        return None if state is None else state is not TransactionState.OPEN

    def _state(self, own: str, directory: str) -> TransactionState | None:
        for found in (_STAGED.fullmatch(own), _BRANCH.fullmatch(directory)):
            text = found[1] if found else ""
            # A token may follow the id, and both may have hyphens.
            while text:
                state = self._of(text)
                if state is not None:
                    return state
                text = text.rpartition("-")[0]
        return None

    def _of(self, transaction_id: str) -> TransactionState | None:
        if transaction_id not in self._known:
            row = transactions.get(self._session, transaction_id)
            self._known[transaction_id] = None if row is None else row.state
        return self._known[transaction_id]

    def _state_of_vectors(self, own: str) -> TransactionState | None:
        mark = mark_in(own)
        if mark is None:
            return None
        if self._marks is None:
            self._marks = marks(transactions.all_ids(self._session))
        owner = self._marks.get(mark)
        return None if owner is None else self._of(owner)
