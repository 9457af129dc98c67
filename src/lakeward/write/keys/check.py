"""Checks the complete change of a transaction: unique keys, foreign keys and tolerant checks.

The rows of the files that a change adds are compared with the rows that stay in the newest version
of the tables. The result contains `guards`: conditions that must still be true when the change is
ratified. Ratification locks the heads and tests the guards against the commits made since. If a
guard is not met, the check is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeward.context import LakeContext
from lakeward.engines.arrow.key_hash import Hashes, is_exact
from lakeward.engines.arrow.keys import KeyIndex as Rows
from lakeward.engines.arrow.keys import distinct, split
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
    NotNull,
    OnViolation,
    Unique,
    declared,
    key_fields,
    loosened,
    not_null,
    tolerant_checks,
    unique_keys,
)
from lakeward.model.constraints import foreign_keys as foreign_keys_of
from lakeward.model.definition import Definition
from lakeward.model.expressions.nodes import Expression
from lakeward.model.expressions.where import parse
from lakeward.model.file import LoggedFile
from lakeward.model.names import TableName
from lakeward.read.plan import to_prune_by
from lakeward.write.keys.changes import adds_rows, marked_files, new_files
from lakeward.write.keys.comparing import duplicates, hashes_of, hashes_of_rows, span
from lakeward.write.keys.declare import check_references, check_still_referable, check_target
from lakeward.write.keys.guards import (
    Guard,
    NoNewKeys,
    NothingAdded,
    NothingRemoved,
    SameReferences,
)
from lakeward.write.keys.index import KeyIndex, key_index
from lakeward.write.keys.ranks import ranks, same_keys
from lakeward.write.keys.reading import PATH, KeyReader, logged
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import Kind
from lakeward.write.stage.checks import violates
from lakeward.write.stage.lacking import may_lack

SAMPLE: Final = 5
_READ_ROWS: Final = 500_000
"""The most rows of a referenced table that are read although exact hashes would suffice."""


@dataclass(frozen=True)
class Offence:
    """Rows that violate a constraint.

    Attributes:
        change: The change that adds the rows, or that removes the rows that they refer to.
        name: The name of the constraint.
        table: The name of the table that has the constraint.
        count: The number of violating rows.
        places: The positions of the rows, by the paths of added files.
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
        changes: The changes of the transaction, by table id.
        guards: Conditions that must still be true when the changes are ratified.
        offences: The violations that were found.
        dropped: The ids of tables that the transaction drops.
        is_pinned: Whether the tables are compared at the versions of the changes' heads, instead of
            their newest versions.
    """

    context: LakeContext
    session: Session
    changes: Mapping[int, Change]
    dropped: Collection[int] = ()
    guards: list[Guard] = field(default_factory=list)
    offences: list[Offence] = field(default_factory=list)
    is_pinned: bool = False

    def run(self) -> None:
        """Check all changes; collect `guards` and `offences`."""
        for change in self.changes.values():
            definition = change.new_definition or change.definition
            if change.new_definition is not None:
                table, guarded = change.head.name, change.head.guarded
                check_references(self.context, self.session, table, definition, guarded=guarded)
                check_still_referable(self.session, table, definition)
                if not change.is_new:
                    known = foreign_keys.referring_to(self.session, table)
                    self.guards.append(SameReferences(change.head, tuple(known)))
            if any(self._is_new(change, name) for name in declared(definition)):
                # All rows are checked below; rows that others add meanwhile are not among them.
                self.guards.append(NothingAdded(self._newest(change)[0]))
            for name, demand in not_null(definition).items():
                self._has_values(change, definition, name, demand)
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
                    if table_id not in self.dropped:
                        self._referred(change, definition, table_id, name)

    def _has_values(
        self, change: Change, definition: Definition, name: str, demand: NotNull
    ) -> None:
        """Find the new rows that lack values of required columns, which staged files may lack."""
        if demand.on_violation == OnViolation.FAIL:
            return
        columns = [definition.schema.by_name[c] for c in demand.columns]
        new = self._to_look_at(change, name)
        doubtful = [f for f in new if any(may_lack(column, [f.file]) for column in columns)]
        reader = KeyReader(
            self.context, change.head, loosened(definition), tuple(definition.schema.names)
        )
        for column in columns:
            bad = reader.matching(doubtful, pc.field(column.name).is_null(), f"Constraint {name}")
            if bad.num_rows:
                reason = f"{column.name} is required and has no value"
                self._offend(change, name, str(change.head.name), demand, reason, bad)

    def _satisfies(
        self, change: Change, definition: Definition, name: str, condition: Check
    ) -> None:
        """Find the new rows that do not satisfy a tolerant check."""
        names = tuple(definition.schema.names)
        reader = KeyReader(self.context, change.head, definition, names)
        predicate = violates(parse(condition.expression, definition.schema))
        what = f"Check {name} ({condition.expression}) of {change.head.name}"
        bad = reader.matching(self._to_look_at(change, name), predicate, what)
        if change.origins is not None and not self._is_new(change, name):
            # Rows that stay as they are were looked at when they were new.
            bad = bad.filter(pa.array(ranks(change, bad, Kind.CHANGED) > Kind.KEPT))
        if bad.num_rows:
            reason = f"{condition.expression} is not true"
            self._offend(change, name, str(change.head.name), condition, reason, bad)

    def _unique(self, change: Change, definition: Definition, name: str, key: Unique) -> None:
        fields = key_fields(definition.schema, key.columns, name)
        head, at_head = self._newest(change)
        reader = KeyReader(self.context, change.head, definition, key.columns)
        new = self._to_look_at(change, name)
        if not new:
            return
        index = key_index(self.context, head, fields)
        given = {f.path: hashes_of(index, reader, f) for f in new}
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
            where = to_prune_by(span(new, dict(zip(fields, fields, strict=True))), after)
            hits = self._find(index, head, wanted, where, others)
            staying = self._staying(head, hits, change)
        doubtful = wanted[counts > 1]
        for path in staying:
            doubtful = np.union1d(doubtful, hits[path])
        if not len(doubtful):
            return
        mine = self._ranked(change, reader.rows(new, doubtful), key.columns)
        theirs = others.rows(staying.values(), doubtful)
        bad = duplicates(mine, theirs, key.columns)
        if bad.num_rows:
            shown = ", ".join(key.columns)
            reason = f"the key ({shown}) is there already, or twice in the new rows"
            self._offend(change, name, str(head.name), key, reason, bad)

    def _ranked(self, change: Change, mine: pa.Table, columns: Sequence[str]) -> pa.Table:
        """Return rows in an order such that, of several rows with the same key, the first stays.

        Kept rows and changed rows with the same key as before come first, then other changed rows,
        then new rows.
        """
        found = ranks(change, mine)
        altered = np.flatnonzero(found == Kind.CHANGED)
        if change.origins is not None and len(altered):
            before = KeyReader(self.context, change.head, change.definition, tuple(columns))
            same = same_keys(before, change.origins, mine.take(pa.array(altered)), columns)
            found[altered[same]] = Kind.KEPT
        return mine.take(pa.array(np.argsort(found, kind="stable")))

    def _refers(self, change: Change, definition: Definition, name: str, key: ForeignKey) -> None:
        """Find the new rows whose foreign key the other table lacks after the transaction."""
        key_fields(definition.schema, key.columns, name)
        new = self._to_look_at(change, name)
        declares = change.is_new or self._is_new(change, name)
        refers_to_itself = key.references == str(change.head.name)
        if not new and (not declares or (change.is_new and refers_to_itself)):
            return
        parent, at_parent = self._table(key, name)
        altered = self.changes.get(parent.table_id)
        check_target(definition, (altered and altered.new_definition) or at_parent, name, key)
        fields = key_fields(at_parent.schema, key.key, name)
        reader = KeyReader(self.context, change.head, definition, key.columns)
        parts = [reader.hashes(f) for f in new]
        wanted = np.unique(np.concatenate([*parts, np.empty(0, dtype=np.uint64)]))
        if declares or len(wanted):
            self.guards.append(NothingRemoved(parent))
        if not len(wanted):
            return
        parents = KeyReader(self.context, parent, at_parent, key.key)
        index = key_index(self.context, parent, fields)
        own = [definition.schema.by_name[c] for c in key.columns]
        where = to_prune_by(span(new, dict(zip(own, fields, strict=True))), at_parent)
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
        """Find the rows of another table that refer to a key which the change removes."""
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
        wanted = np.unique(hashes_of_rows(gone))
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
        """Return whether a change adds or alters a constraint, so that all rows must be checked."""
        if change.new_definition is None or change.is_new:
            return False
        _, before = self._newest(change)
        return declared(before).get(name) != declared(change.new_definition).get(name)

    def _to_look_at(self, change: Change, name: str) -> list[LoggedFile]:
        """Return the files whose rows must be checked: new files, or all for a new constraint."""
        new = new_files(change) if adds_rows(change) else []
        if not self._is_new(change, name):
            return new
        head, _ = self._newest(change)
        known = {f.path for f in new}
        marked = marked_files(change)
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
        """Return the files with hits that the table still has after the change, by path."""
        out: dict[str, LoggedFile] = {}
        marked = {} if change is None else marked_files(change)
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
        if head is None or head.table_id in self.dropped:
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
