"""Columns of a later version in the rows of an earlier commit, at every depth.

Rows of changes have the columns of the last version. A column, or a member of a struct, that the
table did not have at a commit is null in that commit's rows, even where the commit's files still
hold its values, as they do for a column that was dropped and restored.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.model.expressions.nodes import Expression, columns_in
from lakeward.model.schema import Schema
from lakeward.model.types import Field, ListOf, MapOf, Struct, Type


def missing_ids(shown: Schema, past: Schema, *, has_defaults: bool) -> AbstractSet[int]:
    """Return the ids of the fields of `shown`, nested ones too, that `past` does not have.

    With `has_defaults`, fields that were added after `past` are not among them: the format may
    have a default for them.
    """
    return {
        i for i in shown.by_id if i not in past.by_id and not (has_defaults and i > past.last_id)
    }


def has_returned(before: Schema, after: Schema) -> bool:
    """Return whether `after` has a field that was dropped before `before`, so that rows differ."""
    return any(i <= before.last_id for i in after.by_id if i not in before.by_id)


def names_read_by(where: Expression, missing: AbstractSet[int]) -> list[str]:
    """Return all columns that a condition reads, if a field of them is missing; else none."""
    found = {c.field.name: c.field for c in columns_in(where)}
    return list(found) if any(_lacks(f, missing) for f in found.values()) else []


def past_column(
    values: pa.Array, field: Field, missing: AbstractSet[int], kind: pa.DataType
) -> pa.Array:
    """Return the values of a column as `kind`, with nulls for missing members of its structs."""
    found = _blanked(values, field.type, missing) if _lacks(field, missing) else values
    return found if found.type.equals(kind) else found.cast(kind)


def optional(schema: pa.Schema) -> pa.Schema:
    """Return the schema with all fields nullable: old rows may lack values required now."""
    return pa.schema([pa.field(f.name, _all_nullable(f.type)) for f in schema])


def _all_nullable(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([_nullable(f) for f in kind])
    if types.is_map(kind):
        key = kind.key_field.with_type(_all_nullable(kind.key_type))
        return pa.map_(key, _nullable(kind.item_field))
    return pa.list_(_nullable(kind.value_field)) if types.is_list(kind) else kind


def _nullable(source: pa.Field) -> pa.Field:
    return source.with_type(_all_nullable(source.type)).with_nullable(True)


def _lacks(field: Field, missing: AbstractSet[int]) -> bool:
    return bool(missing) and any(f.id in missing for f in Schema((field,), 0).walk())


def _blanked(values: pa.Array, kind: Type, missing: AbstractSet[int]) -> pa.Array:
    match kind:
        case Struct(members):
            parts = [
                pa.nulls(len(values), _all_nullable(values.type.field(n).type))
                if member.id in missing
                else _blanked(values.field(n), member.type, missing)
                for n, member in enumerate(members)
            ]
            fields = [pa.field(m.name, p.type) for m, p in zip(members, parts, strict=True)]
            return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
        case ListOf(element):
            inner = _blanked(values.values, element.type, missing)
            whole = pa.list_(values.type.value_field.with_type(inner.type).with_nullable(True))
            return pa.ListArray.from_arrays(
                _offsets(values), inner, type=whole, mask=values.is_null()
            )
        case MapOf(_, value):
            items = _blanked(values.items, value.type, missing)
            item = values.type.item_field.with_type(items.type).with_nullable(True)
            whole = pa.map_(values.type.key_field, item)
            return pa.MapArray.from_arrays(
                _offsets(values), values.keys, items, whole, None, values.is_null()
            )
        case _:
            return values


def _offsets(values: pa.Array) -> pa.Array:
    """Return the offsets of lists or maps as an array without an offset, as masks require."""
    return pc.add(values.offsets, pa.scalar(0, pa.int32()))
