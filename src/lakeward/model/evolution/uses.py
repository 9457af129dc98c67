"""Finds what uses a column, because of which it cannot be renamed, dropped or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.errors import InvalidExpression, InvalidInput
from lakeward.model.constraints import (
    Constraint,
    ForeignKey,
    NotNull,
    Unique,
    named_columns,
    not_null,
    plain_checks,
    rule_constraints,
    tolerant_checks,
)
from lakeward.model.definition import Definition
from lakeward.model.evolution.paths import Place
from lakeward.model.expressions.nodes import columns_in
from lakeward.model.expressions.where import parse
from lakeward.model.generated import expressions
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Type


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a column: its description, for a sentence, and a hint how to end it."""

    what: str
    instead: str


def fields_below(field: Field) -> frozenset[int]:
    """Return the ids of a field and of all its nested fields."""
    return frozenset(f.id for f in Schema((field,), 0).walk())


def uses(definition: Definition, place: Place) -> Iterator[Use]:
    """Yield everything in a definition that uses a column, or a nested field."""
    yield from uses_in_partitions(definition, place)
    yield from uses_in_generated(definition, place)
    yield from uses_in_checks(definition, place)
    yield from uses_in_keys(definition, place)


def uses_in_keys(definition: Definition, place: Place) -> Iterator[Use]:
    """Yield the unique and foreign keys that contain a column."""
    found = () if place.parents else named_columns(definition).get(place.field.name, ())
    for name in found:
        yield Use(f"it is in the key {name}", _without(name))


def uses_as_required(
    definition: Definition, place: Place, *, by_policies: bool = False
) -> Iterator[Use]:
    """Yield the constraints that say what happens without a value of a required column.

    `by_policies`: only those of policies, which name columns that are renamed elsewhere.
    """
    given = rule_constraints(definition)
    for name, one in () if place.parents else not_null(definition).items():
        if place.field.name in one.columns and (name in given or not by_policies):
            instead = _without(name)
            if name in given:
                instead = "Change the policy with lake.set_policy first."
            yield Use(f"constraint {name} is about its missing values", instead)


def columns_of(constraint: str | Constraint, schema: Schema) -> dict[str, tuple[int, Type]]:
    """Return the ids and types of the columns of a constraint, by path; none if one is missing."""
    if isinstance(constraint, Unique | ForeignKey | NotNull):
        found = (schema.by_name.get(name) for name in constraint.columns)
        return {f.name: (f.id, f.type) for f in found if f is not None}
    text = constraint if isinstance(constraint, str) else constraint.expression
    try:
        columns = columns_in(parse(text, schema))
    except InvalidExpression:
        return {}
    return {".".join((c.field.name, *c.path)): (c.leaf.id, c.type) for c in columns}


def uses_in_partitions(definition: Definition, place: Place) -> Iterator[Use]:
    """Yield the partition values that are, or are computed from, a column."""
    ids = fields_below(place.field)
    for own_id in definition.partition_by:
        found = definition.derived.get(own_id)
        if own_id in ids or (own_id < 0 and found is not None and found.source in ids):
            yield Use(
                f"the table is partitioned by {definition.term(own_id)}",
                "Copy the table into a new one that is partitioned in another way.",
            )
    for own_id, found in definition.derived.items():
        if own_id < 0 and found.source in ids and own_id not in definition.partition_by:
            yield Use(
                f"files may still be partitioned by {definition.term(own_id)}",
                "Copy the table into a new one.",
            )


def uses_in_generated(definition: Definition, place: Place) -> Iterator[Use]:
    """Yield the generated columns that are computed from a column."""
    ids = fields_below(place.field)
    for own_id, derived in definition.derived.items():
        if own_id > 0 and derived.source in ids:
            name = definition.schema.by_id[own_id].name
            yield Use(f"column {name} is generated from it", "Copy the table into a new one.")
    for own_id, expression in expressions(definition).items():
        if any(c.leaf.id in ids or _is_around(c.leaf, place) for c in columns_in(expression)):
            name = definition.schema.by_id[own_id].name
            yield Use(f"column {name} is generated from it", "Copy the table into a new one.")


def uses_in_checks(definition: Definition, place: Place) -> Iterator[Use]:
    """Yield the check constraints that refer to a column."""
    ids = fields_below(place.field)
    tolerant = {n: c.expression for n, c in tolerant_checks(definition).items()}
    for name, text in (*plain_checks(definition).items(), *tolerant.items()):
        found = columns_in(parse(text, definition.schema))
        if any(c.leaf.id in ids or _is_around(c.leaf, place) for c in found):
            yield Use(f"check {name} ({text}) looks at it", _without(name))


def refuse_used(what: str, place: Place, found: Iterator[Use]) -> None:
    """Raise `InvalidInput` with the first use of a column, if there is any."""
    use = next(found, None)
    if use is not None:
        text = f"Column {place.path} cannot be {what}: {use.what}."
        raise InvalidInput(text, hint=use.instead, column=place.path, reason=use.what)


def _without(name: str) -> str:
    return f"Drop the constraint first, in the same transaction: drop_constraint({name!r})."


def _is_around(leaf: Field, place: Place) -> bool:
    return any(parent.id == leaf.id for parent in place.parents)
