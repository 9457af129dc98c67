"""Adds, renames, drops, moves and changes columns of a definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from lakeward.errors import InvalidExpression, InvalidInput
from lakeward.model.constraints import plain_checks
from lakeward.model.constraints import renamed as with_renamed_keys
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    ChangeType,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetComment,
    SetDefault,
    SetNullable,
)
from lakeward.model.evolution.paths import (
    Place,
    find,
    find_names,
    parts_of,
    split_path,
    with_field,
    with_siblings,
)
from lakeward.model.evolution.uses import (
    refuse_used,
    uses,
    uses_as_required,
    uses_in_checks,
    uses_in_generated,
    uses_in_keys,
    uses_in_partitions,
)
from lakeward.model.evolution.widening import same_order, widens, wider
from lakeward.model.expressions.nodes import Column, Literal
from lakeward.model.expressions.where import parse, parse_value
from lakeward.model.generated import generated_ids
from lakeward.model.schema import DEFAULT_AS, INDEXED_FIELDS, MAX_FIELDS, Schema, indexable
from lakeward.model.types import (
    Decimal,
    Field,
    Ids,
    Primitive,
    Struct,
    type_from_arrow,
)
from lakeward.model.values import Value


def with_declared_defaults(schema: Schema) -> Schema:
    """Return the schema of a table to be created, with the defaults of its column declarations."""
    if not any(DEFAULT_AS in field.metadata for field in schema.fields):
        return schema
    return Schema(tuple(map(_declared, schema.fields)), schema.last_id)


def added(definition: Definition, change: AddColumn) -> Definition:
    """Return the definition with a new column; its ids are new, its values null in older files."""
    schema = definition.schema
    *around, name = split_path(change.path, schema)
    parent = find_names(schema, around) if around else None
    if parent is not None and not isinstance(parent.field.type, Struct):
        what = f"Column {parent.path} is of type {parent.field.type}, so it gets no parts."
        hint = "Add members to structs; of a list of structs to its `element`."
        raise InvalidInput(what, hint=hint, column=change.path)
    siblings = schema.fields if parent is None else parts_of(parent.field.type)
    _check_name(name, siblings, change.path)
    if parent is None:
        _check_partition_names(name, definition)
    ids = Ids(schema.last_id)
    own = ids.next()
    kind = type_from_arrow(change.type, ids, where=change.path)
    new = Field(own, name, kind, change.nullable, change.comment, optional=True)
    if parent is not None and change.default is not None:
        what = f"Column {change.path} is a part of another one; only whole columns have defaults."
        raise InvalidInput(what, hint="Leave the default out.", column=change.path)
    new = replace(new, default=literal(change.default, new, change.path))
    indexed = sum(f.indexed for f in schema.fields)
    if parent is None and indexable(kind) and indexed < INDEXED_FIELDS:
        # A file without the column has no row in the index, which means that it is null there.
        new = replace(new, indexed=True)
    placed = _placed((*siblings, new), new, change.after, first=change.first)
    after = with_siblings(
        Schema(schema.fields, ids.last), None if parent is None else parent.field, placed
    )
    if sum(1 for _ in after.walk()) > MAX_FIELDS:
        what = f"The table would have more than {MAX_FIELDS} fields."
        raise InvalidInput(what, column=change.path)
    return replace(definition, schema=after)


def renamed(definition: Definition, change: RenameColumn) -> Definition:
    """Return the definition with another name for a column."""
    place = _named(definition, change.path, "renamed")
    if place.parents and "." in change.name:
        own = change.name.rpartition(".")[2]
        what = f"Column {change.path} cannot be renamed to {change.name!r}: it stays in its struct."
        hint = f"Give the new name alone: rename_column({change.path!r}, {own!r})."
        raise InvalidInput(what, hint=hint, column=place.path)
    siblings = [f for f in place.siblings if f.id != place.field.id]
    _check_name(change.name, siblings, change.name)
    if change.name == place.field.name:
        return definition
    refuse_used("renamed", place, uses_in_generated(definition, place))
    refuse_used("renamed", place, uses_in_checks(definition, place))
    refuse_used("renamed", place, uses_as_required(definition, place, by_policies=True))
    if not place.parents:
        _check_partition_names(change.name, definition, but=place.field.id)
    new = replace(place.field, name=change.name)
    after = replace(definition, schema=with_field(definition.schema, new))
    if place.parents:
        return after
    keys = with_renamed_keys(definition.properties, place.field.name, change.name)
    return replace(after, properties=keys)


def dropped(definition: Definition, change: DropColumn) -> Definition:
    """Return the definition without a column."""
    place = _named(definition, change.path, "dropped")
    refuse_used("dropped", place, uses(definition, place))
    if not place.field.nullable:
        what = f"Column {place.path} cannot be dropped: it is required."
        hint = f"Allow nulls first, in the same transaction: set_nullable({place.path!r})."
        raise InvalidInput(what, hint=hint, column=place.path, reason="it is required")
    left = [f for f in place.siblings if f.id != place.field.id]
    if not left:
        whose = f"column {place.parents[-1].name}" if place.parents else "the table"
        what = f"Column {place.path} cannot be dropped: it is the only one of {whose}."
        raise InvalidInput(what, hint="Add another one first.", column=place.path)
    if not place.parents and len(left) == len(definition.partition_by):
        what = f"Column {place.path} cannot be dropped: the others are partition columns."
        raise InvalidInput(what, hint="Add another one first.", column=place.path)
    parent = place.parents[-1] if place.parents else None
    return replace(definition, schema=with_siblings(definition.schema, parent, left))


def moved(definition: Definition, change: MoveColumn) -> Definition:
    """Return the definition with a column in another position among its siblings."""
    place = _named(definition, change.path, "moved")
    if change.after is None and not change.first:
        what = f"Where should column {place.path} move to?"
        raise InvalidInput(what, hint="Give `after=` or `first=True`.", column=place.path)
    placed = _placed(place.siblings, place.field, change.after, first=change.first)
    parent = place.parents[-1] if place.parents else None
    return replace(definition, schema=with_siblings(definition.schema, parent, placed))


def retyped(definition: Definition, change: ChangeType) -> Definition:
    """Return the definition with a wider type for a column."""
    place = find(definition.schema, change.path)
    old = place.field.type
    new = type_from_arrow(change.type, Ids(), where=change.path)
    if old == new:
        return definition
    if not isinstance(old, Primitive | Decimal) or not widens(old, new):
        _refuse_type(place, str(new), wider(old))
    if place.field.id in definition.identity:
        what = f"Column {place.path} is an identity column, so it stays int64."
        raise InvalidInput(what, column=place.path, reason="it is an identity column")
    refuse_used("changed", place, uses_in_partitions(definition, place))
    refuse_used("changed", place, uses_in_generated(definition, place))
    refuse_used("changed", place, uses_in_keys(definition, place))
    indexed = place.field.indexed and same_order(old, new)
    changed = replace(place.field, type=new, indexed=indexed)
    if changed.default is not None:
        changed = replace(changed, default=_converted(changed.default, old, changed))
    schema = with_field(definition.schema, changed)
    for text in plain_checks(definition).values():
        parse(text, schema)
    return replace(definition, schema=schema)


def with_nullable(definition: Definition, change: SetNullable) -> Definition:
    """Return the definition with nulls allowed or forbidden in a column."""
    place = find(definition.schema, change.path)
    if place.parents and place.field.name == "key" and not place.is_named:
        what = f"{place.path} is the key of a map, which is never null."
        raise InvalidInput(what, column=place.path)
    if change.nullable and any(
        d.source == place.field.id and i > 0 and not definition.schema.by_id[i].nullable
        for i, d in definition.derived.items()
    ):
        what = f"Column {place.path} must stay required: a required column is generated from it."
        raise InvalidInput(what, column=place.path)
    if change.nullable and not place.field.nullable:
        refuse_used("made nullable", place, uses_as_required(definition, place))
    new = replace(place.field, nullable=change.nullable)
    return replace(definition, schema=with_field(definition.schema, new))


def with_default(definition: Definition, change: SetDefault) -> Definition:
    """Return the definition with another default for a column."""
    place = _named(definition, change.path, "given a default")
    if place.parents and change.default is not None:
        what = f"Column {place.path} is a part of another one; only whole columns have defaults."
        raise InvalidInput(what, column=place.path)
    if place.field.id in generated_ids(definition) or place.field.id in definition.identity:
        what = f"Column {place.path} is generated, so it has no default."
        raise InvalidInput(what, column=place.path)
    new = replace(place.field, default=literal(change.default, place.field, change.path))
    return replace(definition, schema=with_field(definition.schema, new))


def with_comment(definition: Definition, change: SetComment) -> Definition:
    """Return the definition with another comment on a column."""
    place = _named(definition, change.path or "", "given a comment")
    new = replace(place.field, comment=change.comment or None)
    return replace(definition, schema=with_field(definition.schema, new))


def _declared(field: Field) -> Field:
    text = field.metadata.get(DEFAULT_AS)
    if text is None:
        return field
    kept = {k: v for k, v in field.metadata.items() if k != DEFAULT_AS}
    return replace(field, metadata=kept, default=literal(text, field, field.name))


def _named(definition: Definition, path: str, what: str) -> Place:
    place = find(definition.schema, path)
    if not place.is_named:
        text = f"{place.path} cannot be {what}: it is the {place.field.name} of a collection."
        hint = f"Change {place.parents[-1].name} instead."
        raise InvalidInput(text, hint=hint, column=place.path)
    return place


def _check_name(name: str, siblings: Sequence[Field], path: str) -> None:
    if not name or any(c in name for c in "\x00\n\r\t"):
        what = f"{name!r} is not a column's name."
        raise InvalidInput(what, hint="Choose a name without control characters.", column=path)
    taken = next((f.name for f in siblings if f.name.lower() == name.lower()), None)
    if taken is not None:
        case = "" if taken == name else ", which differs only by case"
        what = f"The name {name!r} is taken by column {taken!r}{case}."
        raise InvalidInput(what, hint="Choose another name.", column=path, taken=taken)


def _check_partition_names(name: str, definition: Definition, but: int = 0) -> None:
    """Raise `InvalidInput` for the name of a hidden partition value: engines would confuse them."""
    for own_id, derived in definition.derived.items():
        if own_id < 0 and derived.source != but and derived.name.lower() == name.lower():
            what = f"The name {name!r} is taken by the partition field {derived.name!r}."
            raise InvalidInput(what, hint="Choose another name.", column=name, taken=derived.name)


def _placed(
    fields: Sequence[Field], moving: Field, after: str | None, *, first: bool
) -> list[Field]:
    """Return the fields with `moving` first, after the named field, or where it is."""
    if first and after is not None:
        what = "Give `after=` or `first=True`, not both."
        raise InvalidInput(what, column=moving.name)
    rest = [f for f in fields if f.id != moving.id]
    if first:
        return [moving, *rest]
    if after is None:
        return list(fields)
    name = after.rpartition(".")[2] if after not in {f.name for f in rest} else after
    position = next((n for n, f in enumerate(rest) if f.name == name), None)
    if position is None:
        what = f"There is no column {after!r} beside {moving.name}."
        hint = f"It may follow {', '.join(f.name for f in rest)}."
        raise InvalidInput(what, hint=hint, column=moving.name)
    return [*rest[: position + 1], moving, *rest[position + 1 :]]


def _refuse_type(place: Place, new: str, allowed: str) -> NoReturn:
    what = (
        f"Column {place.path} cannot become {new}: it is {place.field.type}, and not all of its"
        " values would fit."
    )
    hint = f"It can become {allowed}. " if allowed else ""
    hint += "Otherwise add a column of the new type, fill it with tx.update, and drop this one."
    raise InvalidInput(what, hint=hint, column=place.path, reason="its values would not fit")


def literal(text: str | None, field: Field, path: str) -> Value:
    """Return the neutral value of a SQL literal for a column.

    Raises `InvalidInput` for another expression, and for a column that can have no default.
    """
    if text is None:
        return None
    if not isinstance(field.type, Primitive | Decimal):
        what = f"Column {path} is {field.type}, which has no default."
        raise InvalidInput(what, hint="Leave the default out.", column=path)
    try:
        found = parse_value(text, _no_columns, field)
    except InvalidExpression as error:
        if error.facts.get("column") is None:
            raise
        # The hint for an expression, a CAST, would not help: a default is a literal.
        hint = f"Write a literal that {field.type} can hold."
        raise InvalidExpression(error.what, hint=hint, column=path) from None
    is_finite = not isinstance(found, Literal) or not (
        isinstance(found.value, float) and not math.isfinite(found.value)
    )
    if not isinstance(found, Literal) or not is_finite:
        what = f"The default of column {path} is {text}, which is not a plain value."
        raise InvalidInput(what, hint="Write a literal: 'EUR', 0, DATE '2026-01-31'.", column=path)
    return found.value


def _no_columns(names: list[str]) -> Column:
    what = f"A default cannot look at column {'.'.join(names)}."
    raise InvalidExpression(what, hint="Write a literal; text stands in single quotes.")


def _converted(value: Value, old: Primitive | Decimal, field: Field) -> Value:
    """Return the neutral value of a default after its column got a wider type."""
    if isinstance(field.type, Decimal):
        return str(value)
    if field.type == Primitive("double") and isinstance(value, int) and old != field.type:
        return float(value)
    return value
