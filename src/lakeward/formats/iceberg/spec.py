"""Partition specs, and the tuples of partition values in manifests.

Every partition field is a hidden value of the definition, with its id negated, also for a column
that the table is partitioned by as it is. Files of older specs keep their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakeward.formats.iceberg.private import partition_record
from lakeward.formats.iceberg.values import from_tuple, to_tuple
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema, indexable
from lakeward.model.transform import Transform
from lakeward.model.values import Value

_BEFORE_FIRST: Final = 999
"""Iceberg counts partition fields from 1000 on."""


def spec_json(definition: Definition, spec_id: int) -> dict[str, Any]:
    """The spec of a table's definition."""
    fields = []
    for own_id in definition.partition_by:
        derived = definition.derived[own_id]
        fields.append(
            {
                "source-id": derived.source,
                "field-id": -own_id,
                "transform": str(derived.transform),
                "name": derived.name,
            }
        )
    return {"spec-id": spec_id, "fields": fields}


def last_partition_id(definition: Definition) -> int:
    """The highest id of a partition field that the table ever had."""
    return max((-i for i in definition.derived), default=_BEFORE_FIRST)


def parse_specs(
    specs: Iterable[Mapping[str, Any]], current: Mapping[str, Any], schema: Schema
) -> tuple[tuple[int, ...], dict[int, Derived]]:
    """The ids of the current spec's partition values, and what each of all specs is derived from.

    Raises `InvalidInput` for an unknown transform.
    """
    every = [_fields(spec, schema) for spec in specs]
    # Files of a spec without the field have no value, which the index would take for null.
    shared = set.intersection(*({f["field-id"] for f in fields} for fields in every))
    derived: dict[int, Derived] = {}
    for field in (f for fields in every for f in fields):
        transform = Transform.parse(field["transform"])
        source = schema.by_id[field["source-id"]]
        indexed = field["field-id"] in shared and indexable(transform.result(source.type))
        derived[-field["field-id"]] = Derived(source.id, transform, field["name"], indexed)
    return tuple(-f["field-id"] for f in _fields(current, schema)), derived


def partition_tuple(
    spec: Mapping[str, Any], definition: Definition, values: Mapping[int, Value]
) -> Any:
    """A partition's values as pyiceberg writes them: one for each field of the spec."""
    parts = []
    for field in spec["fields"]:
        own_id = -field["field-id"]
        known = own_id in definition.partition_by
        parts.append(to_tuple(definition.field(own_id).type, values[own_id]) if known else None)
    return partition_record(parts)


def partition_values(
    spec: Mapping[str, Any], definition: Definition, parts: Sequence[Any]
) -> dict[int, Value]:
    """A partition's values from its tuple."""
    known = {f["field-id"] for f in _fields(spec, definition.schema)}
    return {
        -field["field-id"]: from_tuple(definition.field(-field["field-id"]).type, part)
        for field, part in zip(spec["fields"], parts, strict=True)
        if field["field-id"] in known
    }


def _fields(spec: Mapping[str, Any], schema: Schema) -> list[Mapping[str, Any]]:
    """The fields in use: not those that were dropped, or whose column was dropped."""
    return [
        f for f in spec["fields"] if f["transform"] != "void" and f["source-id"] in schema.by_id
    ]
