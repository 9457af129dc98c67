"""Checks the complete change of a transaction: unique keys, foreign keys and tolerant checks.

The rows of the files that a change adds are compared with the rows that stay in the newest version
of the tables. The result contains `guards`: conditions that must still be true when the change is
ratified. Ratification locks the heads and tests the guards against the commits made since. If a
guard is not met, the check is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lakeward.engines.arrow.key_hash import Hashes, is_exact
from lakeward.engines.arrow.keys import KeyIndex as Rows
from lakeward.engines.arrow.keys import distinct, split
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.engines.arrow.values import python_rows
from lakeward.log import foreign_keys, heads
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
from lakeward.model.expressions.where import parse
from lakeward.model.file import LoggedFile
from lakeward.read.plan import to_prune_by
from lakeward.write.keys.changes import new_files, parents_first
from lakeward.write.keys.claims import Claims, rejected
from lakeward.write.keys.comparing import hashes_of, hashes_of_rows, span
from lakeward.write.keys.declare import check_references, check_still_referable, check_target
from lakeward.write.keys.guards import (
    Guard,
    NoNewKeys,
    NothingAdded,
    NothingRemoved,
    SameReferences,
)
from lakeward.write.keys.index import key_index
from lakeward.write.keys.lookup import KeyLookup
from lakeward.write.keys.offences import Offence, move_rows
from lakeward.write.keys.ranks import ranks, same_keys
from lakeward.write.keys.reading import PATH, KeyReader, logged
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import Kind
from lakeward.write.stage.checks import violates
from lakeward.write.stage.lacking import may_lack

SAMPLE: Final = 5
_READ_ROWS: Final = 500_000
"""The most rows of a referenced table that are read although exact hashes would suffice."""


@dataclass
class KeyCheck(KeyLookup):
    """The check of all changes of one transaction, in one read session.

    Attributes:
        guards: Conditions that must still be true when the changes are ratified.
        offences: The violations that were found.
    """

    guards: list[Guard] = field(default_factory=list)
    offences: list[Offence] = field(default_factory=list)

    def run(self) -> None:
        """Check all changes; collect `guards` and `offences`.

        Rows that are moved to quarantine take no key and are no parents. So the check ends as soon
        as it has found such rows, and the caller checks again when they are moved.
        """
        for change in self.changes.values():
            self._check_definition(change)
        for change in self.changes.values():
            definition = _after(change)
            for name, demand in not_null(definition).items():
                self._has_values(change, definition, name, demand)
            for name, condition in tolerant_checks(definition).items():
                self._satisfies(change, definition, name, condition)
        for change in parents_first(self.changes.values()):
            if not move_rows(self.offences):
                self._check_keys(change)
        if not move_rows(self.offences):
            for change in self.changes.values():
                self._check_references(change)

    def _check_definition(self, change: Change) -> None:
        """Raise if keys refer to what is not there; guard what the check of the rows relies on."""
        definition = _after(change)
        if change.new_definition is not None:
            table, guarded = change.head.name, change.head.guarded
            check_references(self.context, self.session, table, definition, guarded=guarded)
            check_still_referable(self.session, table, definition)
            if not change.is_new:
                known = foreign_keys.referring_to(self.session, table)
                self.guards.append(SameReferences(change.head, tuple(known)))
        if any(self.is_new(change, name) for name in declared(definition)):
            # All rows are checked below; rows that others add meanwhile are not among them.
            self.guards.append(NothingAdded(self.newest(change)[0]))

    def _check_keys(self, change: Change) -> None:
        """Check the keys of new rows; first those whose rows are moved, without which others hold.

        A row without a parent takes no key, so foreign keys come before unique keys.
        """
        definition = _after(change)
        foreign, unique = foreign_keys_of(definition), unique_keys(definition)
        for is_moving in (True, False):
            for name, key in foreign.items():
                if _is_moving(key) == is_moving:
                    self._refers(change, definition, name, key)
            if move_rows(self.offences):
                return
            keys = {name: key for name, key in unique.items() if _is_moving(key) == is_moving}
            self._are_unique(change, definition, keys, together=is_moving)
            if move_rows(self.offences):
                return

    def _check_references(self, change: Change) -> None:
        """Check the rows that refer to rows which the change removes."""
        definition = _after(change)
        if not change.removed or not unique_keys(definition):
            return
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
        new = self.to_look_at(change, name)
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
        bad = reader.matching(self.to_look_at(change, name), predicate, what)
        if change.origins is not None and not self.is_new(change, name):
            # Rows that stay as they are were looked at when they were new.
            bad = bad.filter(pa.array(ranks(change, bad, Kind.CHANGED) > Kind.KEPT))
        if bad.num_rows:
            reason = f"{condition.expression} is not true"
            self._offend(change, name, str(change.head.name), condition, reason, bad)

    def _are_unique(
        self, change: Change, definition: Definition, keys: Mapping[str, Unique], *, together: bool
    ) -> None:
        """Find the new rows that violate unique keys; `together` if a row may violate only one."""
        found = {n: self._claims(change, definition, n, key) for n, key in keys.items()}
        claims = {name: one for name, one in found.items() if one is not None}
        order = {f.path: n for n, f in enumerate(change.added)}
        if together:
            bad = rejected(claims, order)
        else:
            bad = {name: one.violating() for name, one in claims.items()}
        for name, rows in bad.items():
            if rows.num_rows:
                shown = ", ".join(keys[name].columns)
                reason = f"the key ({shown}) is there already, or twice in the new rows"
                self._offend(change, name, str(change.head.name), keys[name], reason, rows)

    def _claims(
        self, change: Change, definition: Definition, name: str, key: Unique
    ) -> Claims | None:
        """Return the new rows that may violate a unique key; None if there are none."""
        fields = key_fields(definition.schema, key.columns, name)
        head, at_head = self.newest(change)
        reader = KeyReader(self.context, change.head, definition, key.columns)
        new = self.to_look_at(change, name)
        if not new:
            return None
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
        if not self.is_new(change, name):
            where = to_prune_by(span(new, dict(zip(fields, fields, strict=True))), after)
            hits = self.find(index, head, wanted, where, others)
            staying = self.staying(head, hits, change)
        doubtful = wanted[counts > 1]
        for path in staying:
            doubtful = np.union1d(doubtful, hits[path])
        if not len(doubtful):
            return None
        mine, ranked = self._ranked(change, reader.rows(new, doubtful), key.columns)
        return Claims(key.columns, mine, ranked, others.rows(staying.values(), doubtful))

    def _ranked(
        self, change: Change, mine: pa.Table, columns: Sequence[str]
    ) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return rows in an order such that, of several rows with the same key, the first stays.

        Kept rows and changed rows with the same key as before come first, then other changed rows,
        then new rows. Return also the rank of each row.
        """
        found = ranks(change, mine)
        altered = np.flatnonzero(found == Kind.CHANGED)
        if change.origins is not None and len(altered):
            before = KeyReader(self.context, change.head, change.definition, tuple(columns))
            same = same_keys(before, change.origins, mine.take(pa.array(altered)), columns)
            found[altered[same]] = Kind.KEPT
        order = np.argsort(found, kind="stable")
        return mine.take(pa.array(order)), found[order]

    def _refers(self, change: Change, definition: Definition, name: str, key: ForeignKey) -> None:
        """Find the new rows whose foreign key the other table lacks after the transaction."""
        key_fields(definition.schema, key.columns, name)
        new = self.to_look_at(change, name)
        declares = change.is_new or self.is_new(change, name)
        refers_to_itself = key.references == str(change.head.name)
        if not new and (not declares or (change.is_new and refers_to_itself)):
            return
        parent, at_parent = self.table(key, name)
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
        hits = self.find(index, parent, wanted, where, parents)
        staying = self.staying(parent, hits, other)
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
        hits = self.find(index, found, wanted, None, children)
        staying = self.staying(found, hits, child)
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


def _after(change: Change) -> Definition:
    return change.new_definition or change.definition


def _is_moving(constraint: Constraint) -> bool:
    return constraint.on_violation == OnViolation.QUARANTINE
