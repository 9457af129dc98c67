"""The index of a table's keys: it finds the data files that may have a key.

The index is derived from data files, which never change, and can be lost without harm: files that
it lacks are read. Hits are checked against the rows, because different keys may have the same hash
and a row may be deleted. Keys that were expensive to read are stored as files below the table, in a
directory that readers of tables ignore, so that the next process need not read them again.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes
from lakeward.errors import LakewardError
from lakeward.log import commits, files
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import LoggedFile
from lakeward.model.types import Field
from lakeward.read.plan import plan
from lakeward.write.keys.runs import Run, merged

DIRECTORY: Final = "_lakeward_keys"
"""The directory below a table's location. Delta and Spark ignore names that begin with `_`."""
_LOG = logging.getLogger(__name__)
_FEW_FILES: Final = 32
_FEW_ROWS: Final = 500_000
"""Up to this many files and rows are read by each process, instead of being stored as a run."""
_SHRINK: Final = 2
"""A run is merged with the previous one unless that is more than this many times as large."""
_KEPT: Final = 100_000_000
"""How many hashes a lake keeps in memory for all tables."""

Reader = Callable[[Sequence[LoggedFile]], Iterable[tuple[str, Hashes]]]
"""Reads the keys of files, including deleted rows; returns pairs of path and hashes."""


@dataclass(frozen=True)
class _Saved:
    """A run that is stored as a file: it has the files of version `until` added after `since`."""

    path: str
    since: int
    until: int
    run: Run


@dataclass
class KeyIndex:
    """The index of one key of a table.

    Attributes:
        covered: A version whose files are all in the index; None if there is no such version yet.
    """

    context: LakeContext
    head: Head
    signature: str
    covered: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    _paths: set[str] = field(default_factory=set)
    _saved: list[_Saved] = field(default_factory=list)
    _fresh: list[Run] = field(default_factory=list)
    _remembered: OrderedDict[str, Hashes] = field(default_factory=OrderedDict)
    _has_looked: bool = False

    @property
    def size(self) -> int:
        """The number of hashes in memory."""
        return sum(len(run.hashes) for run in self._runs())

    def remember(self, path: str, hashes: Hashes) -> None:
        """Keep the hashes of a file that may be committed soon."""
        self._remembered[path] = hashes
        while len(self._remembered) > _FEW_FILES:
            self._remembered.popitem(last=False)

    def recall(self, path: str) -> Hashes | None:
        """Return the hashes of a file that `remember` kept; None if there are none."""
        return self._remembered.get(path)

    def know(self, session: Session, head: Head, where: Expression | None, read: Reader) -> None:
        """Add to the index the files of a version that may have rows of a condition.

        Files that the index lacks are read. If these are many, the index is extended to all files
        of the version, and stored.
        """
        if self.covered is None:
            found = list(plan(session, head.table_id, head.version, where))
            unknown = [f for f in found if f.path not in self._paths]
            if _is_little(unknown):
                self._add(unknown, read)
                return
            self._load(session)
        if self.covered is None or self.covered < head.version:
            after = -1 if self.covered is None else self.covered
            self._add(_added(session, head, after), read)
            self.covered = head.version
            self._save_if_due(session)

    def find(self, wanted: Hashes) -> dict[str, Hashes]:
        """Return, for each file in the index that has some of the hashes, those hashes."""
        out: dict[str, Hashes] = {}
        for run in self._runs():
            for path, found in run.find(wanted).items():
                out[path] = np.union1d(out[path], found) if path in out else found
        return out

    def _runs(self) -> list[Run]:
        return [*(s.run for s in self._saved), *self._fresh]

    def _add(self, new: Sequence[LoggedFile], read: Reader) -> None:
        unread = []
        for file in new:
            if file.path in self._paths:
                continue
            hashes = self._remembered.pop(file.path, None)
            if hashes is None:
                unread.append(file)
            else:
                self._take(file.path, hashes)
        for path, hashes in read(unread) if unread else ():
            self._take(path, hashes)

    def _take(self, path: str, hashes: Hashes) -> None:
        self._paths.add(path)
        self._fresh.append(Run.of(path, hashes))
        while len(self._fresh) > 1 and _is_close(self._fresh[-2], self._fresh[-1]):
            self._fresh[-2:] = [merged(self._fresh[-2:])]

    # Runs as files

    @property
    def _place(self) -> str:
        return f"{self.head.location}/{DIRECTORY}/"

    def _load(self, session: Session) -> None:
        """Load the runs that other processes stored, if they were not loaded before."""
        if self._has_looked:
            return
        self._has_looked = True
        reached = -1
        for since, _, path in sorted(self._listed()):
            kept = self._read(session, path) if since == reached else None
            if kept is not None:
                self._saved.append(kept)
                self._paths.update(kept.run.paths)
                self.covered = reached = kept.until

    def _listed(self) -> list[tuple[int, int, str]]:
        """Return the stored runs: `since`, `until` as a negative number, and the path of each."""
        out = []
        with suppress(LakewardError):
            for file in self.context.storage.listing(self._place.rstrip("/")):
                parts = file.path.rsplit("/", 1)[-1].split("_")
                if parts[0] == self.signature:
                    out.append((int(parts[1]), -int(parts[2]), file.path))
        return out

    def _read(self, session: Session, path: str) -> _Saved | None:
        try:
            known = Run.from_bytes(self.context.storage.read(path))
        except LakewardError:
            return None
        if known is None:
            return None
        header, run = known
        # In a restored store, the version may be of another transaction.
        commit = commits.one(session, self.head.table_id, header["until"])
        if commit is None or commit.info.transaction_id != header["transaction"]:
            return None
        return _Saved(path, header["since"], header["until"], run)

    def _save_if_due(self, session: Session) -> None:
        count = sum(len(run.paths) for run in self._fresh)
        rows = sum(len(run.hashes) for run in self._fresh)
        if self.covered is None or (count <= _FEW_FILES and rows <= _FEW_ROWS):
            return
        commit = commits.one(session, self.head.table_id, self.covered)
        if commit is None:
            return
        new = merged(self._fresh)
        since = self._saved[-1].until if self._saved else -1
        while self._saved and _is_close(self._saved[-1].run, new):
            last = self._saved.pop()
            since = last.since
            new = merged([last.run, new])
        token = secrets.token_hex(4)
        path = f"{self._place}{self.signature}_{since}_{self.covered}_{token}_.keys"
        saved = _Saved(path, since, self.covered, new)
        header = {
            "since": since,
            "until": self.covered,
            "transaction": commit.info.transaction_id,
        }
        self._saved.append(saved)
        self._fresh = []
        try:
            self.context.storage.put(path, new.to_bytes(header))
            used = {s.path for s in self._saved}
            old = [p for _, end, p in self._listed() if -end <= self.covered and p not in used]
            self.context.storage.delete(old)
        except LakewardError as error:
            _LOG.info("The keys of %s are not kept as a file: %s", self.head.name, error)


class KeyIndexes:
    """The indexes that an open lake has in memory; the least recently used are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], KeyIndex] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, context: LakeContext, head: Head, fields: Sequence[Field]) -> KeyIndex:
        """Return the index of a table by some columns; it may be empty."""
        signature = _signature(head, fields)
        key = (head.uuid, signature)
        with self._lock:
            if key not in self._known:
                self._known[key] = KeyIndex(context, head, signature)
            self._known.move_to_end(key)
            while len(self._known) > 1 and sum(i.size for i in self._known.values()) > _KEPT:
                self._known.popitem(last=False)
            return self._known[key]


def key_index(context: LakeContext, head: Head, fields: Sequence[Field]) -> KeyIndex:
    """Return the index of a table by some columns; it may be empty."""
    return context.cache(KeyIndexes).get(context, head, fields)


def added_between(session: Session, head: Head, after: int) -> list[LoggedFile]:
    """Return the files of a head's version that were added after the version `after`."""
    return _added(session, head, after)


def _added(session: Session, head: Head, after: int) -> list[LoggedFile]:
    if head.version - after > _FEW_FILES:
        return list(files.at(session, head.table_id, head.version, after=after))
    return [
        file
        for version in range(after + 1, head.version + 1)
        for file in files.added_at(session, head.table_id, version)
        if file.removed > head.version
    ]


def _is_little(unknown: Sequence[LoggedFile]) -> bool:
    if len(unknown) > _FEW_FILES:
        return False
    return all(f.rows is not None for f in unknown) and (
        sum(f.rows or 0 for f in unknown) <= _FEW_ROWS
    )


def _is_close(before: Run, after: Run) -> bool:
    return len(before.hashes) <= _SHRINK * len(after.hashes)


def _signature(head: Head, fields: Sequence[Field]) -> str:
    """Return an id of a key's index, unique among all indexes in the table's directory."""
    text = head.uuid + "".join(f"/{f.id}:{f.type}" for f in fields)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
