"""Quarantine tables: their names, their columns, and how rows of the original tables fit them.

A quarantine table has the columns of its table, all nullable, and columns that describe the
violation. It is created when it is first needed, and gets columns that are added to the original
table later. A column is stored under another name if the quarantine table uses its name otherwise:
for a description of the violation, or for a former column with a type that its values do not fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeward.context import LakeContext
from lakeward.engines.arrow.conform import conform
from lakeward.errors import InvalidInput, LakewardError, SchemaMismatch, UnsupportedFeature
from lakeward.log import heads
from lakeward.model.evolution.merging import merging
from lakeward.model.names import LONGEST, TableName
from lakeward.model.policy.rules import QUARANTINE
from lakeward.model.schema import Schema
from lakeward.write.tables import create
from lakeward.write.transaction.member import Member

CONSTRAINT: Final = "_constraint"
REASON: Final = "_reason"
TRANSACTION: Final = "_transaction"
_ABOUT: Final = (CONSTRAINT, REASON, TRANSACTION)
_NAMES: Final = 50
"""The most names that are tried for a column."""
_DIGITS: Final = 8


def quarantine_name(name: TableName) -> TableName:
    """Return the name of a table's quarantine table.

    It ends with `__quarantine`. A long name is cut, and gets a part that depends on all of it.
    """
    own = name.name
    if len(own) + len(QUARANTINE) > LONGEST:
        mark = hashlib.sha256(own.encode()).hexdigest()[:_DIGITS]
        own = f"{own[: LONGEST - len(QUARANTINE) - _DIGITS - 1]}_{mark}"
    return replace(name, name=own + QUARANTINE)


def ensure_table(context: LakeContext, member: Member) -> TableName:
    """Return the name of a table's quarantine table; create the table if it is missing."""
    head = member.change.head
    name = quarantine_name(head.name)
    with context.database.read() as session:
        if heads.find(session, name) is not None:
            return name
    own = member.change.definition.schema.to_arrow()
    fields = [f.with_nullable(True).with_name(next(_names(f.name))) for f in own]
    schema = pa.schema([*fields, *(pa.field(n, pa.string()) for n in _ABOUT)])
    create.create(
        context,
        name,
        schema,
        if_not_exists=True,
        format=head.format,
        partition_by=(),
        properties=None,
        policy=None,
        constraints=None,
        comment=f"Rows that constraints keep out of {head.name}.",
        guard=True,
    )
    return name


def fitted(place: Member, rows: pa.Table, about: pa.Table) -> pa.Table:
    """Add missing columns to the quarantine table; return the rows with all of its columns.

    `about` has the columns that describe the violations. The original table may have been altered
    since the quarantine table was created.
    """
    for change in merging(place.change.definition.schema, about.schema, typed=True):
        place.alter(change)
    columns = {name: about[name] for name in _ABOUT}
    for field in rows.schema:
        name = _column_for(place, rows.select([field.name]), columns.keys())
        columns[name] = rows[field.name]
    wanted = place.change.definition.schema.arrow
    for field in wanted:
        if field.name not in columns:
            columns[field.name] = pa.nulls(rows.num_rows, field.type)
    return pa.table({name: columns[name] for name in wanted.names})


def _column_for(place: Member, values: pa.Table, used: Collection[str]) -> str:
    """Return the name of a column of the quarantine table that takes some values.

    The column is added, or gets a wider type, if that is necessary.
    """
    (field,) = values.schema
    failure: LakewardError | None = None
    for name in _names(field.name):
        if name in used:
            continue
        plain = pa.field(name, field.type)
        try:
            for change in merging(place.change.definition.schema, pa.schema([plain]), typed=True):
                place.alter(change)
            schema = place.change.definition.schema
            own = Schema((schema.by_name[name],), schema.last_id)
            conform(values.rename_columns([name]), own, str(place.change.head.name))
        except (InvalidInput, SchemaMismatch, UnsupportedFeature) as error:
            failure = error
        else:
            return name
    raise failure or AssertionError(field.name)


def _names(name: str) -> Iterator[str]:
    """Yield the names under which a column may be stored: its own first, then with numbers."""
    if name.lower() not in _ABOUT:
        yield name
    for number in range(2, _NAMES):
        yield f"{name}__{number}"
