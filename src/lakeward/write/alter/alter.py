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
from lakeward.formats.properties import APPEND_ONLY, VECTOR_FRACTION
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
from lakeward.write.stage.checks import Checks, check_writable
from lakeward.write.tables.properties import check_properties

_OWN: Final = (VECTOR_FRACTION, APPEND_ONLY, *retry.PROPERTIES.values())

Rows: TypeAlias = Callable[[Sequence[str], Expression | None], pa.RecordBatchReader]
"""Some columns of the rows that the transaction sees, of files that may hold rows of a scope."""


@dataclass(frozen=True, slots=True)
class Altered:
    """What a change of a definition came to.

    Attributes:
        definition: After the change.
        looked: Whether the change depends on the rows that are there.
    """

    definition: Definition
    looked: bool


def altered(context: LakeContext, change: Change, asked: Alteration, rows: Rows) -> Altered:
    """The definition after a change, once the rows that the transaction sees allow it.

    Raises `InvalidInput` or one of its kinds; then nothing was done.
    """
    check_writable(change)
    before, name = change.definition, str(change.head.name)
    if isinstance(asked, SetProperty | UnsetProperty):
        _check_property(asked)
    _check_references(context, change, asked)
    kind = format_of(change.head)
    after = kind.alter(before, asked)
    if after != before:
        kind.check_writable(after, name)
    looked = after != before and depends_on_rows(asked)
    if looked:
        _check_rows(asked, before, after, name, rows)
    if after != before and change.added:
        _check_staged(change, after)
    return Altered(after, looked)


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
    if isinstance(asked, AddColumn | SetNullable):
        return not asked.nullable
    return isinstance(asked, AddConstraint)


def _check_rows(
    asked: Alteration, before: Definition, after: Definition, table: str, rows: Rows
) -> None:
    match asked:
        case AddColumn(path=path):
            if any(batch.num_rows for batch in rows([before.schema.names[0]], None)):
                what = (
                    f"Column {path} is required, and the rows that are there have no value in it."
                )
                hint = (
                    "Add it as nullable, fill it with tx.update, then call set_not_null, all in one"
                    " transaction."
                )
                raise InvalidInput(what, hint=hint, table=table, column=path)
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


def _check_staged(change: Change, after: Definition) -> None:
    """Refuse a change that rows of the transaction itself, staged before, do not fit."""
    found = format_of(change.head).misfit(change.definition, after, looked=True)
    if found is not None:
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
