"""One change of a table's definition: checked against the table, its rows and what was staged."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import check_required
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.properties import APPEND_ONLY, BLOOM, RETENTION, VECTOR_FRACTION, ZORDER
from lakeward.formats.registry import format_of
from lakeward.log import foreign_keys, heads
from lakeward.model.constraints import PREFIXES, named_columns, unique_keys
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
from lakeward.write.plan import retry
from lakeward.write.plan.change import ALTER, Change, Operation
from lakeward.write.stage.checks import Checks
from lakeward.write.stage.evolutions import check_asked
from lakeward.write.tables.properties import check_properties

_OWN: Final = (
    *(VECTOR_FRACTION, APPEND_ONLY, BLOOM, RETENTION, ZORDER),
    *retry.PROPERTIES.values(),
)
"""The table properties that the lake itself gives a meaning."""

Rows: TypeAlias = Callable[[Sequence[str], Expression | None], pa.RecordBatchReader]
"""Some columns of the rows that the transaction sees, of files that may hold rows of a scope."""

Look: TypeAlias = Callable[[Alteration, Definition], None]
"""Refuses a change, after which the table has a definition, for the rows that are there."""

HasNew: TypeAlias = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Altered:
    """The result of an alteration.

    Attributes:
        definition: The definition after the change.
        looked: Whether the result depends on the existing rows.
        numbers: Whether existing rows must get ids.
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
        look: Raises if existing rows do not allow the alteration; called only if that matters.
        has_new: Whether the transaction itself has written rows.
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
    looked = after != before and depends_on_rows(asked)
    if looked:
        look(asked, after)
    if after != before:
        _check_staged(change, after, has_new)
    return Altered(after, looked, numbers=kind.gives_first_ids(before, after))


def note(change: Change, asked: Alteration) -> None:
    """Add a change of the definition to the operations that history shows, all of them as one."""
    for place, operation in enumerate(change.operations):
        if operation.name == ALTER:
            changes = [*operation.parameters["changes"], str(asked)]
            change.operations[place] = Operation(ALTER, {"changes": changes})
            return
    change.operations.append(Operation(ALTER, {"changes": [str(asked)]}))


def depends_on_rows(asked: Alteration) -> bool:
    """Whether a change can be made depends on the rows that are there."""
    if isinstance(asked, AddColumn) and asked.backfill:
        return True
    if isinstance(asked, AddColumn | SetNullable):
        return not asked.nullable
    return isinstance(asked, AddConstraint) or asked == EnableFeature("row_tracking")


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
    """Refuse a change that rows of the transaction itself, staged before, do not fit."""
    found = format_of(change.head).misfit(change.definition, after, looked=True)
    if found is not None and has_new():
        raise _staged_before(change, found)


def _staged_before(change: Change, found: Misfit) -> UnsupportedFeature:
    name = str(change.head.name)
    what = f"Rows of {name} were written before in this transaction, which then {found.reason}."
    hint = "Alter the table before you write to it."
    return UnsupportedFeature(what, hint=hint, table=name, column=found.column)


def _check_references(context: LakeContext, change: Change, asked: Alteration) -> None:
    """Refuse to change a key that foreign keys refer to."""
    match asked:
        case RenameColumn(path=path) | DropColumn(path=path) | ChangeType(path=path):
            used = {path}
        case DropConstraint(name=name):
            key = unique_keys(change.definition).get(name)
            used = set() if key is None else set(key.columns)
        case _:
            return
    if not used & named_columns(change.definition).keys():
        return
    table = change.head.name
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


def _check_clustering(context: LakeContext, change: Change, asked: DropColumn) -> None:
    """Raise if an alteration drops a clustering column of the table."""
    name, head = str(change.head.name), change.head
    with context.database.read() as session:
        columns = format_of(head).clustered_by(session, head, change.definition)
    place = find(change.definition.schema, asked.path)
    if place.column.name in columns:
        reason = f"the table is clustered by {', '.join(columns)}"
        what = f"Column {place.path} cannot be dropped: {reason}."
        hint = "Cluster it by others first, with ALTER TABLE … CLUSTER BY on Spark."
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
