"""Checks one change of a table's definition against the table, its rows and staged rows."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import check_required
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.base import Format
from lakeward.formats.properties import (
    APPEND_ONLY,
    BLOOM,
    RETENTION,
    ROW_TRACKING,
    SNAPSHOT_AGE,
    SNAPSHOTS,
    VECTOR_FRACTION,
    ZORDER,
)
from lakeward.formats.registry import format_of
from lakeward.log import foreign_keys, heads
from lakeward.model.constraints import (
    PREFIXES,
    Unique,
    named_columns,
    rule_keys,
    rule_sources,
    unique_keys,
)
from lakeward.model.constraints import foreign_keys as keys_of
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddConstraint,
    Alteration,
    ChangeType,
    DropColumn,
    DropConstraint,
    EnableFeature,
    RenameColumn,
    SetNullable,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.fit import Misfit
from lakeward.model.evolution.paths import find
from lakeward.model.expressions.nodes import Column, Expression, IsNull, columns_in
from lakeward.model.expressions.where import parse
from lakeward.write.alter.dependents import warn_of_dependents
from lakeward.write.plan import retry
from lakeward.write.plan.change import ALTER, Change, Operation
from lakeward.write.stage.checks import Checks
from lakeward.write.stage.evolutions import check_asked
from lakeward.write.stage.lacking import unguarded
from lakeward.write.tables.properties import check_properties

_OWN: Final = (
    *(VECTOR_FRACTION, APPEND_ONLY, BLOOM, RETENTION, ZORDER, SNAPSHOTS, SNAPSHOT_AGE),
    *retry.PROPERTIES.values(),
)
"""The table properties that the lake itself defines."""

_NUMBERING: Final = (EnableFeature("row_tracking"), SetProperty(ROW_TRACKING, "true"))
"""The alterations after which existing rows get ids."""

Rows: TypeAlias = Callable[[Sequence[str], Expression | None], pa.RecordBatchReader]
"""Returns some columns of the rows that the transaction sees, pruned by a condition if given."""

Look: TypeAlias = Callable[[Alteration, Definition], None]
"""Raises if existing rows do not allow a change; called with the change and the new definition."""

HasNew: TypeAlias = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Altered:
    """The result of an alteration.

    Attributes:
        definition: The definition after the change.
        looked: Whether existing rows were checked, so that the result depends on them.
        numbers: Whether ids must be assigned to existing rows.
    """

    definition: Definition
    looked: bool
    numbers: bool = False


def altered(
    context: LakeContext, change: Change, asked: Alteration, look: Look, has_new: HasNew
) -> Altered:
    """Return the definition after an alteration, if the rows that the transaction sees allow it.

    Raises `InvalidInput` or a subclass; then nothing was changed.

    Args:
        context: The lake's context.
        change: The transaction's pending change of the table.
        asked: The alteration.
        look: Raises if existing rows do not allow the alteration; called only if they matter.
        has_new: Returns whether the transaction itself has written rows.
    """
    before = change.definition
    if isinstance(asked, SetProperty | UnsetProperty):
        _check_property(asked)
    _check_references(context, change, asked)
    kind = format_of(change.head)
    if isinstance(asked, DropColumn):
        _check_clustering(context, change, asked)
    after = kind.alter(before, asked)
    if after != before:
        check_asked(change.head, before, after, asked)
    looked = after != before and depends_on_rows(asked) and not _has_value(kind, after, asked)
    if looked:
        look(asked, after)
    if after != before:
        _check_staged(change, after, has_new)
        warn_of_dependents(context, change, asked)
    return Altered(after, looked, numbers=kind.gives_first_ids(before, after))


def note(change: Change, asked: Alteration) -> None:
    """Add an alteration to the change's operation `ALTER`, which lists all of them in history."""
    for place, operation in enumerate(change.operations):
        if operation.name == ALTER:
            changes = [*operation.parameters["changes"], str(asked)]
            change.operations[place] = Operation(ALTER, {"changes": changes})
            return
    change.operations.append(Operation(ALTER, {"changes": [str(asked)]}))


def depends_on_rows(asked: Alteration) -> bool:
    """Return whether the existing rows decide if a change can be made."""
    if isinstance(asked, AddColumn) and asked.backfill:
        return True
    if isinstance(asked, AddColumn | SetNullable):
        return not asked.nullable
    return isinstance(asked, AddConstraint) or asked in _NUMBERING


def lacks_values(path: str, table: str) -> InvalidInput:
    """Return the error for a new required column in a table that has rows."""
    what = f"Column {path} is required, and existing rows have no value in it."
    hint = (
        "Add it as nullable, fill it with tx.update, then call set_not_null, all in one"
        " transaction."
    )
    return InvalidInput(what, hint=hint, table=table, column=path)


def check_rows(
    asked: Alteration, before: Definition, after: Definition, table: str, rows: Rows
) -> None:
    """Raise if existing rows do not satisfy an alteration."""
    match asked:
        case AddColumn(path=path):
            if any(batch.num_rows for batch in rows([before.schema.names[0]], None)):
                raise lacks_values(path, table)
        case SetNullable(path=path):
            place = find(after.schema, path)
            column = place.column
            scope = None if place.parents else IsNull(Column(place.field))
            for batch in rows([column.name], scope):
                check_required(column, pa.chunked_array([batch.column(0)]), table)
        case AddConstraint(name=name, expression=text):
            expression = parse(text, after.schema)
            checks = Checks(table, {})
            checks.add(name.lower(), text, expression)
            used = {c.field.name: None for c in columns_in(expression)}
            for batch in rows(list(used) or [before.schema.names[0]], None):
                checks.look_at(pa.Table.from_batches([batch]))
            checks.raise_violations()
        case _:
            pass


def _check_staged(change: Change, after: Definition, has_new: HasNew) -> None:
    """Raise `UnsupportedFeature` if rows staged earlier in the transaction do not fit a change."""
    found = format_of(change.head).misfit(change.definition, after, looked=True)
    found = found or unguarded(change, after)
    if found is not None and has_new():
        raise _staged_before(change, found)


def _staged_before(change: Change, found: Misfit) -> UnsupportedFeature:
    name = str(change.head.name)
    what = f"Rows of {name} were written before in this transaction, which then {found.reason}."
    hint = "Alter the table before you write to it."
    return UnsupportedFeature(what, hint=hint, table=name, column=found.column)


def _check_references(context: LakeContext, change: Change, asked: Alteration) -> None:
    """Raise `InvalidInput` if a change affects a key that foreign keys refer to."""
    match asked:
        case RenameColumn(path=path) | DropColumn(path=path) | ChangeType(path=path):
            place = find(change.definition.schema, path)
            used = set() if place.parents else {place.field.name}
        case DropConstraint(name=name):
            key = unique_keys(change.definition).get(name)
            used = set() if key is None else set(key.columns)
        case _:
            return
    if not used & named_columns(change.definition).keys():
        return
    table = change.head.name
    if isinstance(asked, RenameColumn):
        _check_keys_of_policies(change.definition, str(table), used)
    with context.database.read() as session:
        for table_id, constraint in foreign_keys.referring_to(session, table):
            head = heads.by_id(session, table_id)
            if head is None:
                continue
            key_of = keys_of(context.definition(session, head))[constraint]
            if used & set(key_of.key):
                what = f"`{asked}`: foreign key {constraint} of {head.name} refers to this key."
                hint = f"Drop the foreign key of {head.name} first."
                facts = {"table": str(table), "constraint": constraint, "column": sorted(used)[0]}
                raise InvalidInput(what, hint=hint, **facts)


def _check_keys_of_policies(definition: Definition, table: str, renamed: set[str]) -> None:
    """Raise `InvalidInput` if a renamed column is in a unique key of a policy."""
    for name, key in rule_keys(definition).items():
        if isinstance(key, Unique) and renamed & set(key.columns):
            column, source = min(renamed), rule_sources(definition)[name]
            reason = f"it is in the key {name} of the policy of {source}"
            what = f"Column {column} cannot be renamed: {reason}."
            hint = "Change the policy with lake.set_policy first."
            raise InvalidInput(what, hint=hint, table=table, column=column, reason=reason)


def _has_value(kind: Format, after: Definition, asked: Alteration) -> bool:
    """Return whether existing rows have a value in the column that an alteration adds."""
    if not isinstance(asked, AddColumn):
        return False
    return kind.fills_older_rows(find(after.schema, asked.path).field)


def _check_clustering(context: LakeContext, change: Change, asked: DropColumn) -> None:
    """Raise `InvalidInput` if an alteration drops a clustering column of the table."""
    name, head = str(change.head.name), change.head
    with context.database.read() as session:
        columns = format_of(head).clustered_by(session, head, change.definition)
    place = find(change.definition.schema, asked.path)
    if place.column.name in columns:
        reason = f"the table is clustered by {', '.join(columns)}"
        what = f"Column {place.path} cannot be dropped: {reason}."
        hint = "Copy the rows to a table that is not clustered: CREATE TABLE … AS SELECT."
        raise InvalidInput(what, hint=hint, table=name, column=place.path, reason=reason)


def _check_property(asked: SetProperty | UnsetProperty) -> None:
    if asked.key.startswith(PREFIXES):
        what = f"Property {asked.key} is not set by hand."
        raise InvalidInput(what, hint="Use drop_constraint.", property=asked.key)
    if isinstance(asked, UnsetProperty):
        return
    check_properties({asked.key: asked.value})
    if asked.key.startswith("lakeward.") and asked.key not in _OWN:
        near = difflib.get_close_matches(asked.key, _OWN, 1)
        what = f"Lakeward has no table property {asked.key}."
        hint = f"Did you mean {near[0]}?" if near else f"It has {', '.join(_OWN)}."
        raise InvalidInput(what, hint=hint, property=asked.key)
