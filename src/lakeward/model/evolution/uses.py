"""What depends on a column, so that it cannot be renamed, dropped or changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.errors import InvalidInput
from lakeward.model.constraints import named_columns, plain_checks, tolerant_checks
from lakeward.model.definition import Definition
from lakeward.model.evolution.paths import Place
from lakeward.model.expressions.nodes import columns_in
from lakeward.model.expressions.where import parse
from lakeward.model.generated import expressions
from lakeward.model.schema import Schema
from lakeward.model.types import Field


@dataclass(frozen=True, slots=True)
class Use:
    """A use of a column: what it is in a sentence, and what would end it."""

    what: str
    instead: str


def fields_below(field: Field) -> frozenset[int]:
    """The ids of a field and of all its parts."""
    return frozenset(f.id for f in Schema((field,), 0).walk())


def uses(definition: Definition, place: Place) -> Iterator[Use]:
    """Everything in a definition that needs a column, or a part of one."""
    yield from uses_in_partitions(definition, place)
    yield from uses_in_generated(definition, place)
    yield from uses_in_checks(definition, place)
    yield from uses_in_keys(definition, place)


def uses_in_keys(definition: Definition, place: Place) -> Iterator[Use]:
    """The unique and foreign keys that a column is in."""
    found = () if place.parents else named_columns(definition).get(place.field.name, ())
    for name in found:
        yield Use(f"it is in the key {name}", _without(name))


def uses_in_partitions(definition: Definition, place: Place) -> Iterator[Use]:
    """The partitioning by a column."""
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
    """The generated columns that are computed from a column."""
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
    """The checks that look at a column."""
    ids = fields_below(place.field)
    tolerant = {n: c.expression for n, c in tolerant_checks(definition).items()}
    for name, text in (*plain_checks(definition).items(), *tolerant.items()):
        found = columns_in(parse(text, definition.schema))
        if any(c.leaf.id in ids or _is_around(c.leaf, place) for c in found):
            yield Use(f"check {name} ({text}) looks at it", _without(name))


def refuse_used(what: str, place: Place, found: Iterator[Use]) -> None:
    """Raise `InvalidInput` for the first use there is."""
    use = next(found, None)
    if use is not None:
        text = f"Column {place.path} cannot be {what}: {use.what}."
        raise InvalidInput(text, hint=use.instead, column=place.path, reason=use.what)


def _without(name: str) -> str:
    return f"Drop the constraint first, in the same transaction: drop_constraint({name!r})."


def _is_around(leaf: Field, place: Place) -> bool:
    return any(parent.id == leaf.id for parent in place.parents)
