"""Rebuilds a lost store from the published files: Delta logs and Iceberg metadata.

The published files of every table that this lake guarded or created have its name, its schema with
field ids, its history and the ids of its transactions. Commits that were ratified and not published
are lost with the store; a transaction of which some tables are missing is reported. An Iceberg
document is left out if no other file proves that its commit was ratified.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, InvalidName, LakewardError
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.parse import is_ours
from lakeward.formats.delta.protocol import is_guarded
from lakeward.formats.iceberg.definition import NAME
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.hints import renew_hints
from lakeward.formats.iceberg.newest import Candidates
from lakeward.formats.registry import format_named
from lakeward.log import commits, heads, positions, transactions
from lakeward.maintain.published import published_tables
from lakeward.model.clock import now_ms
from lakeward.model.commit import Head
from lakeward.model.names import LONGEST, TableName
from lakeward.model.progress import Progress
from lakeward.storage.attach import attach
from lakeward.write.tables.adopt import adopt, adopt_from
from lakeward.write.tables.clone import restore_clones
from lakeward.write.tables.create import drop


class Incomplete(NamedTuple):
    """A transaction of which the rebuilt store has fewer tables than it changed."""

    transaction_id: str
    tables: int
    expected: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was rebuilt.

    Attributes:
        lake: The store that was filled.
        tables: Names of tables with their newest versions.
        skipped: Locations that were left out, or whose tables are dropped, with the reason.
        incomplete: Transactions of which some tables are missing.
    """

    lake: str
    tables: dict[str, int]
    skipped: dict[str, str]
    incomplete: list[Incomplete]


def rebuild(context: LakeContext, progress: Progress | None = None) -> Rebuilt:
    """Fill an empty store from the published files; raise `AlreadyExists` if it has tables.

    `progress` is called with the number of tables that are done, and of all tables.
    """
    with context.database.read() as session:
        if heads.all_heads(session):
            what = f"The store {context.database.label} has tables already."
            raise AlreadyExists(what, hint="Rebuild into an empty store.")
    rebuilding = _Rebuilding(context)
    tables = sorted(published_tables(context.storage), key=lambda p: -_newest(context, *p))
    for log, location in tables:
        rebuilding.look_at(log, location)
    for number, (log, location) in enumerate(tables, 1):
        rebuilding.take(log, location)
        if progress is not None:
            progress(number, len(tables))
    renew_hints(context)
    restore_clones(context)
    found = dict(sorted(rebuilding.found.items()))
    return Rebuilt(context.database.label, found, rebuilding.skipped, _register(context))


def is_published_below(place: str) -> tuple[bool, str]:
    """Return whether a warehouse has published tables, and its full path or URL."""
    storage = attach(place, {})
    return next(published_tables(storage), None) is not None, storage.root


@dataclass
class _Rebuilding:
    """The state of a rebuild; `ratified` are the transactions known to be ratified."""

    context: LakeContext
    found: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    ratified: set[str] = field(default_factory=set)
    _candidates: dict[str, Candidates] = field(default_factory=dict)

    def look_at(self, log: str, location: str) -> None:
        """Collect the transactions that a table's files prove to be ratified."""
        with suppress(LakewardError):
            if log == METADATA_DIRECTORY:
                found = self._candidates[location] = Candidates.at(self.context.storage, location)
                self.ratified.update(found.vouched())
            else:
                history = read_history(self.context.storage, location)
                self.ratified.update(c.info.transaction_id for c in history.commits)

    def take(self, log: str, location: str) -> None:
        """Adopt a table, or record why it is skipped."""
        try:
            if log == METADATA_DIRECTORY:
                self._take_iceberg(location)
            else:
                self._take_delta(location)
        except LakewardError as error:
            self.skipped[location] = str(error)

    def _take_delta(self, location: str) -> None:
        name = _delta_name(self.context, location)
        free = self._free_name(name, location)
        if name is not None and free is not None:
            place = self.context.storage.uri(location)
            head = adopt(self.context, free, place, guard=False, take_over=True, format="delta")
            self._restored(head, name)

    def _take_iceberg(self, location: str) -> None:
        document, doubtful = self._candidates[location].newest(self.ratified.__contains__)
        for path in doubtful:
            full = f"{location}/{METADATA_DIRECTORY}/{path}"
            self.skipped[full] = "nothing vouches for it: its commit was never acknowledged"
        name = _parsed(document.properties.get(NAME))
        free = self._free_name(name, location)
        if name is not None and free is not None:
            pointer = document.location
            kind = format_named("iceberg")
            head = adopt_from(self.context, free, kind, pointer, guard=False, take_over=True)
            self._restored(head, name)

    def _free_name(self, name: TableName | None, location: str) -> TableName | None:
        """Return a name for a table that is not in use; None if the table was not made by a lake.

        A table whose name a newer one has was dropped before the newer one was created.
        """
        if name is None:
            self.skipped[location] = "it was not made by a lake"
            return None
        if str(name) not in self.found:
            return name
        suffix = hashlib.sha256(location.encode()).hexdigest()[:8]
        return TableName(name.namespace, f"{name.name[: LONGEST - len(suffix) - 1]}_{suffix}")

    def _restored(self, head: Head, name: TableName) -> None:
        """Record a table, and drop it again if a newer one has its name."""
        if head.name == name:
            self.found[str(name)] = head.version
        else:
            drop(self.context, head.name)
            reason = f"a newer table is called {name}; this one is dropped, as {head.name}"
            self.skipped[head.location] = reason


def _newest(context: LakeContext, log: str, location: str) -> int:
    listed = context.storage.listing(f"{location}/{log}")
    return max((f.modified_ms for f in listed), default=0)


def _delta_name(context: LakeContext, location: str) -> TableName | None:
    history = read_history(context.storage, location)
    definition = history.definitions[-1][1]
    ours = is_guarded(definition.protocol) or is_ours(history.commits[0].info)
    return _parsed(history.name) if ours else None


def _parsed(name: str | None) -> TableName | None:
    with suppress(InvalidName):
        return None if name is None else TableName.parse(name)
    return None


def _register(context: LakeContext) -> list[Incomplete]:
    """Insert a row for every transaction; return those of which tables are missing."""
    expected: dict[str, int] = {}
    present: Counter[str] = Counter()
    with context.database.write() as session:
        for transaction_id, members in commits.transaction_members(session):
            expected[transaction_id] = members
            present[transaction_id] += 1
        transactions.register_ratified(session, expected, context.actor, now_ms())
        positions.renumber(session)
    return [Incomplete(i, present[i], n) for i, n in expected.items() if present[i] < n]
