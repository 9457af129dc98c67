"""A table's schema made to take data with other columns, before the data is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeward.engines.arrow.like import schema_of_rows
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.merging import SchemaMode, merging, replacing
from lakeward.write.transaction.member import Member


def fit_schema(
    alter: Callable[[Member, Alteration], None],
    member: Member,
    data: Any,
    mode: str | None,
    allowed: SchemaMode,
) -> None:
    """Alter a table as `schema_mode` says; `overwrite` is for data that replaces all rows."""
    if mode is None:
        return
    chosen = arguments.choice(mode, SchemaMode, "schema_mode")
    if chosen is SchemaMode.OVERWRITE and allowed is not SchemaMode.OVERWRITE:
        what = "schema_mode='overwrite' replaces the schema, so all rows must be replaced."
        raise InvalidInput(what, hint="Use tx.overwrite without `where`, or schema_mode='merge'.")
    definition = member.change.definition
    schema = definition.schema
    given, typed = schema_of_rows(data, schema.by_name)
    if chosen is SchemaMode.MERGE:
        changes = merging(schema, given, typed=typed)
    else:
        generated = frozenset(schema.by_id[i].name for i in definition.derived if i > 0)
        changes = replacing(schema, given, generated)
    for change in list(changes):
        alter(member, change)
