"""Partition specs, and the tuples of values that stand for them in manifests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.extra import pyiceberg
from lakeward.formats.iceberg.values import from_tuple, to_tuple
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema
from lakeward.model.values import Value

FIRST_ID: Final = 1000
"""Where Iceberg begins to count partition fields."""


def spec_json(definition: Definition, spec_id: int) -> dict[str, Any]:
    """The spec of a table's definition."""
    return {"spec-id": spec_id, "fields": list(_fields(definition))}


def last_partition_id(definition: Definition) -> int:
    """The highest id of a partition field; Iceberg counts from one below the first."""
    return max((f["field-id"] for f in _fields(definition)), default=FIRST_ID - 1)


def parse_spec(source: Mapping[str, Any], schema: Schema) -> tuple[int, ...]:
    """The ids of the partition values, in order."""
    return tuple(_id(f, schema) for f in source["fields"] if f["transform"] != "void")


def partition_tuple(definition: Definition, values: Mapping[int, Value]) -> Any:
    """A partition's values as pyiceberg writes them."""
    by_id = definition.schema.by_id
    parts = [to_tuple(by_id[i].type, values.get(i)) for i in definition.partition_by]
    return pyiceberg("typedef").Record(*parts)


def partition_values(
    spec: Mapping[str, Any], schema: Schema, parts: Sequence[Any]
) -> dict[int, Value]:
    """A partition's values from its tuple."""
    out: dict[int, Value] = {}
    for field, part in zip(spec["fields"], parts, strict=True):
        if field["transform"] == "void":
            continue
        number = _id(field, schema)
        out[number] = from_tuple(schema.by_id[number].type, part)
    return out


def _fields(definition: Definition) -> Sequence[dict[str, Any]]:
    return [
        {
            "source-id": i,
            "field-id": FIRST_ID + n,
            "transform": "identity",
            "name": definition.schema.by_id[i].name,
        }
        for n, i in enumerate(definition.partition_by)
    ]


def _id(field: Mapping[str, Any], schema: Schema) -> int:
    if field["transform"] == "identity" and field["source-id"] in schema.by_id:
        return int(field["source-id"])
    what = f"The partition transform {field['transform']} is not known."
    raise UnsupportedFeature(what, hint="Read the table with Spark.")
