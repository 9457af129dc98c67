"""Relocates a lake whose files were moved or copied: rewrites all full paths of its files.

First check that all files exist. Then write new Iceberg metadata beside the old, and in one
database transaction refer to the new metadata, change full paths in the log, and give the store and
the warehouse a new identity. If the process dies before that, unused files are left, and the
command may be run again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final
from uuid import uuid4

from lakeward.context import LakeContext
from lakeward.errors import Conflict, CorruptTable, Locked, UnsupportedFeature
from lakeward.formats.delta.moved_logs import moved_checkpoint, moved_commit, moved_vector
from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.formats.delta.vectors import escaped
from lakeward.formats.iceberg.deletes import DELETE_FILES, EQUALITY_IDS
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.hints import document_number, renew_hints
from lakeward.formats.iceberg.manifests import FILE_PATH
from lakeward.formats.iceberg.moved import MovedTables
from lakeward.formats.iceberg.moved_lists import moved_lists, name_lists
from lakeward.log import binding, branches, heads, relocation, transactions
from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.maintain import ownership
from lakeward.maintain.relocatable import check_files, is_left_out, restorable
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.model.steps import reach
from lakeward.storage.paths import Move

_FILES: Final = 1_000
"""More files than these are not kept in memory."""
_ROWS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Relocated:
    """What was done, or would be done.

    Attributes:
        old: The warehouse that the store recorded.
        new: Where the warehouse is now.
        tables: The number of tables in the lake.
        iceberg_tables: The number of tables in Iceberg catalogs that got new metadata.
        metadata_files: The number of Iceberg files written.
        rows: The number of rows of the log whose full paths were changed.
        dry_run: Whether nothing was changed.
    """

    old: str | None
    new: str
    tables: int
    iceberg_tables: int
    metadata_files: int
    rows: int
    dry_run: bool


def relocate(context: LakeContext, *, dry_run: bool = False) -> Relocated:
    """Bind a store to the present location of its warehouse; see `lakeward.relocate`."""
    with context.database.read() as session:
        bound = binding.read(session)
        live = heads.all_heads(session)
        gone = restorable(session)
        entered = relocation.pointers(session)
        _check_idle(context, session)
        _check_ours(context, session, bound)
    move = _move(context, bound, [*live, *gone])
    known = [*live, *(h for h in gone if not is_left_out(context, h, move))]
    check_files(context, known, move)
    reach("relocate.checked")
    work = _Work(context, move, MovedTables(move, _reader(context), uuid4().hex[:8]))
    if move.old:
        work.plan(entered, known)
        _check_movable(work.logs, move)
        work.plan_lists(known, write=not dry_run)
    done = Relocated(
        None if bound is None else bound.warehouse,
        context.storage.root,
        len(live),
        len(work.pointers),
        work.written + len(work.metadata.files),
        len(work.files) + len(work.change_files),
        dry_run,
    )
    if not dry_run:
        work.run()
        with context.database.read() as session:
            gone = [heads.ever_by_id(session, h.table_id) for h in known[len(live) :]]
        renew_hints(context, gone)
        reach("relocate.hinted")
    return done


@dataclass
class _Work:
    """The files to write and the rows to change.

    `pointers` are rows of the Iceberg catalogs with their new documents, `heads` the documents of
    heads with their new ones, `logs` the directories of Delta tables and branches whose logs have
    full paths, `documents` the first documents of Iceberg branches, which keep their names, `lists`
    the new manifest lists of each table's versions. `written` is the number of files written so
    far.
    """

    context: LakeContext
    move: Move
    metadata: MovedTables
    pointers: list[tuple[tuple[str, str, str, str], str]] = field(default_factory=list)
    heads: dict[str, str] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    change_files: list[dict[str, Any]] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    documents: list[tuple[str, bytes]] = field(default_factory=list)
    lists: dict[int, dict[int, str]] = field(default_factory=dict)
    written: int = 0

    @property
    def address(self) -> Move:
        """The same move for paths in Delta logs, which are escaped as in URLs."""
        return Move(tuple(map(escaped, self.move.old)), escaped(self.move.new))

    def plan(self, entered: list[tuple[str, str, str, str]], known: list[Head]) -> None:
        """Prepare all files and rows in memory, given catalog rows and the tables to relocate."""
        for row in entered:
            if self.move.inside(row[3]) is not None:
                self.pointers.append((row, self.metadata.document(row[3])))
        self.heads = {
            head.pointer: self.metadata.document(head.pointer)
            for head in known
            if head.pointer is not None and self.move.inside(head.pointer) is not None
        }
        delta: dict[int, str] = {}
        iceberg: dict[int, str] = {}
        for head in known:
            {"delta": delta, "iceberg": iceberg}[head.format][head.table_id] = head.location
        with self.context.database.read() as session:
            logs = {
                f"{delta[b.table_id]}/{b.directory}"
                for b in branches.named(session)
                if b.table_id in delta
            }
            for branch in branches.named(session):
                if branch.table_id in iceberg:
                    self._plan_branch(f"{iceberg[branch.table_id]}/{branch.directory}")
            for row in relocation.full_files(session):
                if self._plan_file(*row) and row[0] in delta:
                    logs.add(delta[row[0]])
            self.logs = sorted(logs)
            for table_id, version, ordinal, path in relocation.full_change_files(session):
                if self.move.inside(path) is not None:
                    key = {"table_id": table_id, "version": version, "ordinal": ordinal}
                    self.change_files.append({**key, "path": self.move(path)})

    def plan_lists(self, known: list[Head], *, write: bool) -> None:
        """Prepare the manifest lists of all versions; if they are many, write some with `write`."""
        for head in known:
            names = self.lists.setdefault(head.table_id, {})
            for version, name in moved_lists(self.context, head, self.metadata, self.move.old[0]):
                names[version] = name
                if len(self.metadata.files) > _FILES:
                    self._write_some(write=write)

    def run(self) -> None:
        """Write the files, then change the store in one transaction."""
        storage = self.context.storage
        self._write_some()
        reach("relocate.written")
        # May be repeated: paths that were changed are not changed twice.
        for directory in self.logs:
            self._rewrite_log(directory)
        for path, data in self.documents:
            storage.put(path, data)
        reach("relocate.logs")
        with self.context.database.write() as session:
            self.context.database.lock_schema(session)
            relocation.lock_heads(session)
            # A process that stood still may continue: its transaction must not commit any more.
            transactions.expire(session, _check_idle(self.context, session))
            for row, new in self.pointers:
                if not relocation.set_pointer(session, row, new):
                    what = f"Somebody committed to {row[1]}.{row[2]} while the lake was relocated."
                    raise Conflict(what, hint="Stop everybody who uses the lake, and try again.")
            for old, new in self.heads.items():
                relocation.set_head_pointer(session, old, new)
            for start in range(0, len(self.files), _ROWS):
                relocation.set_files(session, self.files[start : start + _ROWS])
            relocation.set_change_files(session, self.change_files)
            for table_id, names in self.lists.items():
                name_lists(session, table_id, names)
            reach("relocate.changed")
            ownership.rebind(self.context.database, session, storage)
        reach("relocate.committed")

    def _write_some(self, *, write: bool = True) -> None:
        storage, some = self.context.storage, self.metadata.files
        if write:
            storage.create_all([(storage.path_of(name), data) for name, data in some])
        self.written += len(some)
        some.clear()

    def _plan_branch(self, directory: str) -> None:
        """Prepare the first document of a branch, which is in no catalog."""
        storage = self.context.storage
        for found in storage.listing(f"{directory}/{METADATA_DIRECTORY}"):
            if document_number(found.path) == 0:
                data = self.metadata.in_place(storage.uri(found.path))
                self.documents.append((found.path, data))

    def _plan_file(
        self, table_id: int, added: int, ordinal: int, path: str, vector: Any, extra: Any
    ) -> bool:
        """Prepare the new row of a file; return whether its paths change."""
        new = {
            "path": self.move(path) if is_full(path) else path,
            "deletion_vector": self._vector(vector),
            "extra": self._extra(extra),
        }
        if new == {"path": path, "deletion_vector": vector, "extra": extra}:
            return False
        key = {"table_id": table_id, "added_version": added, "ordinal": ordinal}
        self.files.append({**key, **new})
        return True

    def _vector(self, text: str | None) -> str | None:
        known = None if text is None else loads(text)
        if known is None:
            return None
        if DELETE_FILES not in known:
            new = moved_vector(known, self.address)
            return text if new == known else dumps(new)
        places = [d["path"] for d in known[DELETE_FILES]]
        if all(self.move.inside(p) is None for p in places):
            return text
        for delete in known[DELETE_FILES]:
            # Equality deletes name no files, so they stay as they were written.
            of_rows = EQUALITY_IDS in delete
            moved = self.move if of_rows else partial(self._rewritten, kind=delete["format"])
            delete["path"] = moved(delete["path"])
        return dumps(known)

    def _rewritten(self, path: str, *, kind: str) -> str:
        """Return the new path of a file of deletes; one that is damaged stays damaged.

        Those of newest versions are not: they were rewritten with the documents before.
        """
        try:
            return self.metadata.deletes(path, kind)[0]
        except CorruptTable:
            return self.move(path)

    def _extra(self, text: str | None) -> str | None:
        known = None if text is None else loads(text)
        if known is None:
            return None
        new = dict(known)
        if FILE_PATH in known:
            new[FILE_PATH] = self.move(known[FILE_PATH])
        if isinstance(known.get("path"), str):
            new["path"] = self.address(known["path"])
        return text if new == known else dumps(new)

    def _rewrite_log(self, directory: str) -> None:
        """Rewrite the commits and checkpoints of a Delta log that have paths below the old root."""
        storage = self.context.storage
        for found in storage.listing(f"{directory}/{LOG_DIRECTORY}", recursive=True):
            if found.path.endswith(".json"):
                change = moved_commit
            elif found.path.endswith(".parquet"):
                change = moved_checkpoint
            else:
                continue
            data = storage.read(found.path)
            new = change(data, self.address)
            if new != data:
                storage.put(found.path, new)


def _move(context: LakeContext, bound: binding.Binding | None, known: list[Head]) -> Move:
    """Return the replacement of every earlier root of the warehouse by the present one."""
    roots: dict[str, None] = {}
    if bound is not None:
        roots[bound.warehouse] = None
        roots[bound.spelled] = None
    for head in known:
        before, found, _ = str(head.pointer).partition(f"/{head.location}/{METADATA_DIRECTORY}/")
        if head.pointer is not None and found and not is_full(head.location):
            roots[before] = None
    storage = context.storage
    here = {storage.root, "" if storage.is_remote else os.path.realpath(storage.root), ""}
    return Move(tuple(r for r in roots if r not in here), storage.root)


def _check_ours(context: LakeContext, session: Session, bound: binding.Binding | None) -> None:
    """Raise if a warehouse has the identity of another lake."""
    marker = ownership.read_marker(context.storage)
    own = ownership.own_place(context.database, session, context.storage)
    if marker is None or marker.store == own:
        return
    if bound is None or marker.identity != bound.identity:
        raise ownership.taken(context.storage, marker)


def _check_idle(context: LakeContext, session: Session) -> int:
    """Raise `Locked` if a transaction is open whose lease is valid; return the current time."""
    now = context.database.clock_ms(session)
    busy = [r for r in transactions.still_open(session) if r.lease_until_ms >= now]
    if busy:
        first = busy[0]
        what = f"Transaction {first.transaction_id} of {first.actor} ({first.process}) is open."
        hint = "End all transactions, and stop everybody who uses the lake."
        raise Locked(what, hint=hint, transaction_id=first.transaction_id)
    return now


def _check_movable(delta: list[str], move: Move) -> None:
    """Raise if the new root is below the old one: paths in Delta logs would be ambiguous."""
    nested = any(f"{move.new}/".startswith(f"{root}/") for root in move.old)
    if delta and nested:
        what = f"{move.new} lies below the old place, and Delta logs name files there in full."
        hint = "Move the lake to a place outside, or drop its clones and branches before. "
        hint += "Dropped clones count until vacuum has deleted them."
        raise UnsupportedFeature(what, hint=hint)


def _reader(context: LakeContext) -> Any:
    def read(name: str) -> bytes:
        return context.storage.read(context.storage.path_of(name))

    return read
