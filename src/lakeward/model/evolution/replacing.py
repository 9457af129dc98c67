"""Derives the alterations that make a table without rows what CREATE OR REPLACE TABLE declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from lakeward.errors import UnsupportedFeature
from lakeward.model.constraints import declared
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddPartitionField,
    Alteration,
    DropConstraint,
    DropPartitionField,
    SetComment,
    SetDefault,
    SetNullable,
    SetProperty,
)
from lakeward.model.evolution.merging import replacing
from lakeward.model.evolution.paths import quoted
from lakeward.model.expressions.nodes import Literal
from lakeward.model.expressions.render import render
from lakeward.model.generated import generated_ids
from lakeward.model.types import Field


def replacements(
    old: Definition, new: Definition, properties: Mapping[str, str]
) -> Iterator[Alteration]:
    """Yield the alterations, in an order in which they can be applied.

    Columns, partitioning, comments and defaults become those of `new`, the table's own constraints
    are dropped, and `properties` are set beside those that the table has. A column that keeps its
    name and type keeps its id.

    Raises:
        UnsupportedFeature: One of the two definitions has generated or identity columns.
    """
    if any(generated_ids(d) or d.identity for d in (old, new)):
        what = "A table with generated columns or identity columns cannot be replaced."
        raise UnsupportedFeature(what, hint="Write DROP TABLE and CREATE TABLE.")
    yield from (DropConstraint(name) for name in declared(replace(old, rules=())))
    terms, wanted = old.partitioning, new.partitioning
    yield from (DropPartitionField(term) for term in terms if term not in wanted)
    before = dict(old.schema.by_name)
    yield from replacing(old.schema, new.schema.arrow, frozenset())
    for field in new.schema:
        known = before.get(field.name)
        same = known is not None and str(known.type) == str(field.type)
        yield from _described(known if same else None, field)
    yield from (AddPartitionField(term) for term in wanted if term not in terms)
    if old.comment != new.comment:
        yield SetComment(None, new.comment)
    for key, value in properties.items():
        if old.properties.get(key) != value:
            yield SetProperty(key, value)


def check_format(table: str, old: str, new: str) -> None:
    """Raise `UnsupportedFeature` if a table would get another format."""
    if old != new:
        what = f"Table {table} has the format {old}, which CREATE OR REPLACE TABLE keeps."
        hint = f"Leave USING {new} out, or write DROP TABLE and CREATE TABLE."
        raise UnsupportedFeature(what, hint=hint, table=table)


def _described(known: Field | None, field: Field) -> Iterator[Alteration]:
    """Yield alterations that set a column's comment, default and nullability.

    `known` is the column as it is before; None for a column that was just added.
    """
    path = quoted(field.name)
    if (known is None or known.nullable) != field.nullable:
        yield SetNullable(path, nullable=field.nullable)
    if (None if known is None else known.comment) != field.comment:
        yield SetComment(path, field.comment)
    if (None if known is None else known.default) != field.default:
        default = None if field.default is None else render(Literal(field.default, field.type))
        yield SetDefault(path, default)
