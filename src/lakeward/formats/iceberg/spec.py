"""Partition specs, and the tuples of partition values in manifests.

Every partition field is a derived value of the definition, with its id negated, also one with the
transform `identity`. Files of older specs keep their values.
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

_VOID: Final = "void"
_BEFORE_FIRST: Final = 999
"""The id before the first one of a partition field: Iceberg numbers them from 1000 on."""


def spec_json(definition: Definition, spec_id: int) -> dict[str, Any]:
    """Return the partition spec of a table's definition, as Iceberg's JSON."""
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
    """Return the highest id of a partition field that the table ever had."""
    return max((-i for i in definition.derived), default=_BEFORE_FIRST)


def parse_specs(
    specs: Iterable[Mapping[str, Any]], current: Mapping[str, Any], schema: Schema
) -> tuple[tuple[int, ...], dict[int, Derived]]:
    """Return the ids of the current spec's partition values, and all specs' values by id.

    Raises `InvalidInput` for an unknown transform.
    """
    every = [_fields(spec, schema) for spec in specs]
    # Files of a spec without the field have no value, which the index would treat as null.
    shared = set.intersection(*({f["field-id"] for f in fields} for fields in every))
    derived: dict[int, Derived] = {}
    for field in (f for fields in every for f in fields):
        transform = Transform.parse(field["transform"])
        source = schema.by_id[field["source-id"]]
        indexed = field["field-id"] in shared and indexable(transform.result(source.type))
        derived[-field["field-id"]] = Derived(source.id, transform, field["name"], indexed)
    return tuple(-f["field-id"] for f in _fields(current, schema)), derived


def spec_of_file(
    specs: Mapping[int, Mapping[str, Any]], default_id: int, partition: Mapping[int, Value]
) -> int:
    """Return the id of the spec of a file: the default one, or the newest with just its values.

    A file has another spec than the default one if it is shared with the source of a clone, or if a
    client wrote it before the partitioning changed.
    """
    wanted = set(partition)
    for number in (default_id, *sorted(specs, reverse=True)):
        if _used(specs[number]) == wanted:
            return number
    return default_id


def specs_of_clone(
    specs: Iterable[Mapping[str, Any]], definition: Definition
) -> tuple[list[Mapping[str, Any]], int]:
    """Return the specs of a clone, from those of its source, and the id of the default spec.

    These are all specs that the files of the cloned version may have.
    """
    out = [s for s in specs if _used(s) <= set(definition.derived)]
    for spec in out:
        if tuple(-f["field-id"] for f in spec["fields"]) == tuple(definition.partition_by):
            return out, int(spec["spec-id"])
    number = max((int(s["spec-id"]) for s in out), default=-1) + 1
    return [*out, spec_json(definition, number)], number


def _used(spec: Mapping[str, Any]) -> set[int]:
    """Return the ids of the partition values that files of a spec have."""
    return {-f["field-id"] for f in spec["fields"] if f["transform"] != _VOID}


def partition_tuple(
    spec: Mapping[str, Any], definition: Definition, values: Mapping[int, Value]
) -> Any:
    """Return a partition's values as a record of pyiceberg, one for each field of the spec."""
    parts = []
    for field in spec["fields"]:
        own_id = -field["field-id"]
        known = own_id in definition.derived and field["transform"] != _VOID
        parts.append(to_tuple(definition.field(own_id).type, values[own_id]) if known else None)
    return partition_record(parts)


def partition_values(
    spec: Mapping[str, Any], definition: Definition, parts: Sequence[Any]
) -> dict[int, Value]:
    """Return a partition's values by id, from its tuple."""
    known = {f["field-id"] for f in _fields(spec, definition.schema)}
    return {
        -field["field-id"]: from_tuple(definition.field(-field["field-id"]).type, part)
        for field, part in zip(spec["fields"], parts, strict=True)
        if field["field-id"] in known
    }


def _fields(spec: Mapping[str, Any], schema: Schema) -> list[Mapping[str, Any]]:
    """Return the spec's fields in use: neither they nor their columns were dropped."""
    return [f for f in spec["fields"] if f["transform"] != _VOID and f["source-id"] in schema.by_id]
