"""Checks of a change as a whole: unique keys, foreign keys, and checks that do not refuse rows.

A change is compared with the newest version of the tables: the rows of the files that it adds,
beside the rows that stay. The result names what must still hold when the change is ratified
(`guards`). Ratification looks, behind the locked heads, at what was committed since. If that could
matter, the check is made again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes, is_exact, key_hashes
from lakeward.engines.arrow.keys import KeyIndex as Rows
from lakeward.engines.arrow.keys import distinct, first_rows, split
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.values import python_rows
from lakeward.errors import InvalidInput
from lakeward.log import files, foreign_keys, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import (
    Check,
    Constraint,
    ForeignKey,
    Unique,
    declared,
    key_fields,
    tolerant_checks,
    unique_keys,
)
from lakeward.model.constraints import foreign_keys as foreign_keys_of
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression, Or
from lakeward.model.expressions.where import parse
from lakeward.model.file import LoggedFile
from lakeward.model.keys import between, file_bounds
from lakeward.model.names import TableName
from lakeward.model.types import Field, Primitive
from lakeward.read.plan import to_prune_by
from lakeward.write.keys.changes import adds_rows, marked_files, movable_files, new_files
from lakeward.write.keys.declare import check_references, check_still_referable, check_target
from lakeward.write.keys.guards import Guard, NoNewKeys, NothingRemoved, SameReferences
from lakeward.write.keys.index import KeyIndex, key_index
from lakeward.write.keys.reading import PATH, KeyReader, logged
from lakeward.write.plan.change import Change
from lakeward.write.stage.checks import violates

SAMPLE: Final = 5
_SPANS: Final = 64
_FLOATS: Final = (Primitive("float"), Primitive("double"))
_READ_ROWS: Final = 500_000
"""Up to so many rows of a referenced table are read although an exact hash would do."""


@dataclass(frozen=True)
class Offence:
    """Rows that violate a key.

    Attributes:
        change: That has the rows, or that takes away what rows refer to.
        name: Of the constraint.
        table: Whose constraint it is.
        places: By the paths of added files, the positions of the rows.
    """

    change: Change
    name: str
    table: str
    constraint: Constraint
    reason: str
    count: int
    sample: list[dict[str, object]]
    places: Mapping[str, list[int]] = field(default_factory=dict)


@dataclass
class KeyCheck:
    """The check of all changes of one transaction, in one read session.

    Attributes:
        is_pinned: Whether the tables are compared at the versions of the changes' heads, instead of
            their newest ones.
    """

    context: LakeContext
    session: Session
    changes: Mapping[int, Change]
    guards: list[Guard] = field(default_factory=list)
    offences: list[Offence] = field(default_factory=list)
    is_pinned: bool = False

    def run(self) -> None:
        """Check every change."""
        for change in self.changes.values():
            definition = change.new_definition or change.definition
            if change.new_definition is not None:
                table, guarded = change.head.name, change.head.guarded
                check_references(self.context, self.session, table, definition, guarded=guarded)
                check_still_referable(self.session, table, definition)
                if not change.is_new:
                    known = foreign_keys.referring_to(self.session, table)
                    self.guards.append(SameReferences(change.head, tuple(known)))
            for name, condition in tolerant_checks(definition).items():
                self._satisfies(change, definition, name, condition)
            for name, key in unique_keys(definition).items():
                self._unique(change, definition, name, key)
            for name, foreign in foreign_keys_of(definition).items():
                self._refers(change, definition, name, foreign)
            if change.removed and unique_keys(definition):
                known = foreign_keys.referring_to(self.session, change.head.name)
                self.guards.append(SameReferences(change.head, tuple(known)))
                for table_id, name in known:
                    self._referred(change, definition, table_id, name)

    def _satisfies(
        self, change: Change, definition: Definition, name: str, condition: Check
    ) -> None:
        """Every new row satisfies a check."""
        names = tuple(definition.schema.names)
        reader = KeyReader(self.context, change.head, definition, names)
        predicate = violates(parse(condition.expression, definition.schema))
        what = f"Check {name} ({condition.expression}) of {change.head.name}"
        bad = reader.matching(self._to_look_at(change, name), predicate, what)
        if bad.num_rows:
            reason = f"{condition.expression} is not true"
            self._offend(change, name, str(change.head.name), condition, reason, bad)

    def _unique(self, change: Change, definition: Definition, name: str, key: Unique) -> None:
        fields = key_fields(definition.schema, key.columns, name)
        head, at_head = self._newest(change)
        reader = KeyReader(self.context, change.head, definition, key.columns)
        # Of rows with the same key the one stays that cannot be moved elsewhere.
        movable = movable_files(change)
        new = sorted(self._to_look_at(change, name), key=lambda f: f.path in movable)
        if not new:
            return
        index = key_index(self.context, head, fields)
        given = {f.path: _hashes(index, reader, f) for f in new}
        every = np.concatenate([*given.values(), np.empty(0, dtype=np.uint64)])
        wanted, counts = np.unique(every, return_counts=True)
        # Files that are there are read as the change would have them, if it alters the table.
        after = at_head if change.new_definition is None else definition
        if not change.is_new:
            self.guards.append(NoNewKeys(self.context, head, after, key.columns, wanted))
        others = KeyReader(self.context, head, after, key.columns)
        hits: dict[str, Hashes] = {}
        staying: dict[str, LoggedFile] = {}
        if not self._is_new(change, name):
            where = to_prune_by(_span(new, dict(zip(fields, fields, strict=True))), after)
            hits = self._find(index, head, wanted, where, others)
            staying = self._staying(head, hits, change)
        doubtful = wanted[counts > 1]
        for path in staying:
            doubtful = np.union1d(doubtful, hits[path])
        if not len(doubtful):
            return
        mine = reader.rows(new, doubtful)
        theirs = others.rows(staying.values(), doubtful)
        bad = _duplicates(mine, theirs, key.columns)
        if bad.num_rows:
            shown = ", ".join(key.columns)
            reason = f"the key ({shown}) is there already, or twice in the new rows"
            self._offend(change, name, str(head.name), key, reason, bad)

    def _refers(self, change: Change, definition: Definition, name: str, key: ForeignKey) -> None:
        """Every key that new rows refer to is in the other table after the transaction."""
        key_fields(definition.schema, key.columns, name)
        parent, at_parent = self._table(key, name)
        altered = self.changes.get(parent.table_id)
        check_target(definition, (altered and altered.new_definition) or at_parent, name, key)
        fields = key_fields(at_parent.schema, key.key, name)
        reader = KeyReader(self.context, change.head, definition, key.columns)
        new = self._to_look_at(change, name)
        parts = [reader.hashes(f) for f in new]
        wanted = np.unique(np.concatenate([*parts, np.empty(0, dtype=np.uint64)]))
        if not len(wanted):
            return
        self.guards.append(NothingRemoved(parent))
        parents = KeyReader(self.context, parent, at_parent, key.key)
        index = key_index(self.context, parent, fields)
        own = [definition.schema.by_name[c] for c in key.columns]
        where = to_prune_by(_span(new, dict(zip(own, fields, strict=True))), at_parent)
        other = self.changes.get(parent.table_id)
        hits = self._find(index, parent, wanted, where, parents)
        staying = self._staying(parent, hits, other)
        missing = wanted
        many = sum(f.rows or _READ_ROWS for f in staying.values()) > _READ_ROWS
        if many and is_exact([at_parent.schema.arrow.field(c).type for c in key.key]):
            # A file without deleted rows has every key whose hash it has; others are read.
            for path, file in list(staying.items()):
                if file.file.deletion_vector is None:
                    missing = np.setdiff1d(missing, hits[path])
                    del staying[path]
        if not len(missing):
            return
        there = parents.rows(staying.values(), missing)
        if other is not None:
            added = other.new_definition or other.definition
            fresh = KeyReader(self.context, other.head, added, key.key)
            there = pa.concat_tables([there, fresh.rows(new_files(other), missing)])
        mine = reader.rows(new, missing)
        columns = distinct([there], key.key).columns
        found = Rows(columns).find([mine[c] for c in key.columns]).rows
        lacking = np.ones(mine.num_rows, dtype=bool)
        lacking[found] = False
        bad = mine.filter(pa.array(lacking))
        if bad.num_rows:
            shown = ", ".join(key.key)
            reason = f"{key.references} has no row with this key ({shown})"
            self._offend(change, name, str(change.head.name), key, reason, bad)

    def _referred(self, change: Change, definition: Definition, table_id: int, name: str) -> None:
        """No row of another table refers to a key that goes."""
        child = self.changes.get(table_id)
        found = heads.by_id(self.session, table_id)
        if found is None:
            return
        at_child = self.context.definition(self.session, found)
        key = foreign_keys_of(at_child).get(name)
        if key is None:
            return
        before = KeyReader(self.context, change.head, change.definition, key.key)
        after = KeyReader(self.context, change.head, definition, key.key)
        gone = before.rows(change.removed.values()).select(key.key)
        kept = after.rows(logged(change.added, change.head.version + 1)).select(key.key)
        gone = split(gone, kept)[1] if kept.num_rows else gone
        wanted = np.unique(_of(gone))
        if not len(wanted):
            return
        self.guards.append(NoNewKeys(self.context, found, at_child, key.columns, wanted))
        children = KeyReader(self.context, found, at_child, key.columns)
        index = key_index(self.context, found, key_fields(at_child.schema, key.columns, name))
        hits = self._find(index, found, wanted, None, children)
        staying = self._staying(found, hits, child)
        rows = [children.rows(staying.values(), wanted)]
        if child is not None:
            fresh = child.new_definition or child.definition
            mine = KeyReader(self.context, child.head, fresh, key.columns)
            rows.append(mine.rows(new_files(child), wanted))
        referring = pa.concat_tables(rows)
        gone_keys = distinct([gone], key.key).columns
        pairs = Rows(gone_keys).find([referring[c] for c in key.columns])
        bad = referring.take(pa.array(np.unique(pairs.rows)))
        if bad.num_rows:
            reason = f"rows of {found.name} refer to keys that {change.head.name} would lose"
            self._offend(change, name, str(found.name), key, reason, bad, own_rows=False)

    def _is_new(self, change: Change, name: str) -> bool:
        """Whether a change adds a constraint to its table, so that all rows must be looked at."""
        if change.new_definition is None or change.is_new:
            return False
        _, before = self._newest(change)
        return declared(before).get(name) != declared(change.new_definition).get(name)

    def _to_look_at(self, change: Change, name: str) -> list[LoggedFile]:
        """The files whose rows must be checked: those that are new, or all for a new constraint."""
        new = new_files(change) if adds_rows(change) else []
        if not self._is_new(change, name):
            return new
        head, _ = self._newest(change)
        known = {f.path for f in new}
        marked = {} if change.fixed else marked_files(change)
        there = [
            marked.get(f.path, f)
            for f in files.at(self.session, head.table_id, head.version)
            if (f.added, f.ordinal) not in change.removed or f.path in marked
        ]
        return [*(f for f in there if f.path not in known), *new]

    def _find(
        self,
        index: KeyIndex,
        head: Head,
        wanted: Hashes,
        where: Expression | None,
        reader: KeyReader,
    ) -> dict[str, Hashes]:
        with index.lock:
            index.know(self.session, head, where, reader.all_hashes)
            return index.find(wanted)

    def _staying(
        self, head: Head, hits: Mapping[str, Hashes], change: Change | None
    ) -> dict[str, LoggedFile]:
        """The files among those with hits that the table has after the change, by path."""
        out: dict[str, LoggedFile] = {}
        marked = {} if change is None or change.fixed else marked_files(change)
        for path in hits:
            if path in marked:
                out[path] = marked[path]
                continue
            for file in files.at_path(self.session, head.table_id, head.version, path):
                if change is None or (file.added, file.ordinal) not in change.removed:
                    out[path] = file
        return out

    def _newest(self, change: Change) -> tuple[Head, Definition]:
        if change.is_new or self.is_pinned:
            return change.head, change.definition
        head = heads.by_id(self.session, change.head.table_id)
        if head is None:
            raise heads.missing(self.session, change.head.name)
        return head, self.context.definition(self.session, head)

    def _table(self, key: ForeignKey, name: str) -> tuple[Head, Definition]:
        head = heads.find(self.session, TableName.parse(key.references))
        if head is None:
            what = f"Foreign key {name} refers to table {key.references}, which is not there."
            hint = "Make the table, or drop the constraint."
            raise InvalidInput(what, hint=hint, constraint=name, table=key.references)
        return head, self.context.definition(self.session, head)

    def _offend(
        self,
        change: Change,
        name: str,
        table: str,
        constraint: Constraint,
        reason: str,
        bad: pa.Table,
        *,
        own_rows: bool = True,
    ) -> None:
        places: dict[str, list[int]] = {}
        if own_rows:
            for path, place in zip(bad[PATH].to_pylist(), bad[POSITION].to_pylist(), strict=True):
                places.setdefault(path, []).append(place)
        shown = python_rows(bad.drop_columns([PATH, POSITION]).slice(0, SAMPLE))
        found = Offence(change, name, table, constraint, reason, bad.num_rows, list(shown), places)
        self.offences.append(found)


def _hashes(index: KeyIndex, reader: KeyReader, file: LoggedFile) -> Hashes:
    known = index.recall(file.path) if file.file.deletion_vector is None else None
    if known is None:
        known = reader.hashes(file)
        if file.file.deletion_vector is None:
            index.remember(file.path, known)
    return known


def _of(keys: pa.Table) -> Hashes:
    hashes, whole = key_hashes(keys.columns)
    return hashes[whole]


def _duplicates(mine: pa.Table, theirs: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The new rows whose key another row has; of several new ones with a key all but the first."""
    bad = np.ones(mine.num_rows, dtype=bool)
    own = [mine[c] for c in columns]
    bad[first_rows(own)] = False
    bad[Rows(distinct([theirs], columns).columns).find(own).rows] = True
    return mine.filter(pa.array(bad))


def _span(new: Sequence[LoggedFile], fields: Mapping[Field, Field]) -> Expression | None:
    """A condition for the rows that may have the keys of files; None where it is not known."""
    if not 0 < len(new) <= _SPANS:
        return None
    # An order of floats tells -0.0 from 0.0, which are one key.
    usable = {a: b for a, b in fields.items() if a.type == b.type and a.type not in _FLOATS}
    each = [
        between({other: file_bounds(file.file, own) for own, other in usable.items()})
        for file in new
    ]
    known = [condition for condition in each if condition is not None]
    if len(known) < len(each):
        return None
    return known[0] if len(known) == 1 else Or(tuple(known))
