"""Applies a new definition to a table's metadata document: schemas, specs, properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lakeward.formats.iceberg.definition import CREATED, properties_json, schemas_of, specs_of
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.names import NAME_MAPPING
from lakeward.formats.iceberg.schema import schema_json
from lakeward.formats.iceberg.spec import last_partition_id, spec_json
from lakeward.formats.iceberg.upgrading import upgraded_body
from lakeward.model.commit import Head
from lakeward.model.definition import Definition


def redefined(
    document: Document, head: Head, definition: Definition, properties: Mapping[str, str]
) -> dict[str, Any]:
    """Return the keys of a document's body that a new definition changes, with their new values.

    Of `properties`, keeps the record of the creation and the name mapping, which are no part of a
    definition.
    """
    newer = upgraded_body(document, head, definition)
    body = {**document.body, **newer}
    known = schemas_of(body)
    current = body["current-schema-id"]
    new = _with_initial(schema_json(definition.schema, current), known.values())
    kept = {key: properties[key] for key in (CREATED, NAME_MAPPING) if key in properties}
    out: dict[str, Any] = {
        **newer,
        "properties": {**properties_json(head, definition), **kept},
    }
    if new != {k: v for k, v in known[current].items() if k in new}:
        number = max(known) + 1
        kept_keys = _identifiers(known[current], definition)
        out["schemas"] = [*known.values(), {**new, "schema-id": number, **kept_keys}]
        out["current-schema-id"] = number
        out["last-column-id"] = max(definition.schema.last_id, body["last-column-id"])
    return out | _changed_spec(body, definition)


def _identifiers(schema: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """Return the key `identifier-field-ids` of a schema, with only columns that still exist."""
    known = definition.schema.by_id
    found = [i for i in schema.get("identifier-field-ids") or () if i in known]
    return {"identifier-field-ids": found} if found else {}


def _changed_spec(body: Mapping[str, Any], definition: Definition) -> dict[str, Any]:
    """Return the keys of a document's body that a change of the partitioning changes; or none."""
    specs = specs_of(body)
    new = spec_json(definition, 0)["fields"]
    if new == _plain_fields(specs[body["default-spec-id"]]):
        return {}
    known = next((i for i, s in specs.items() if _plain_fields(s) == new), None)
    number = max(specs) + 1 if known is None else known
    listed = list(specs.values())
    if known is None:
        listed.append({"spec-id": number, "fields": new})
    newest = max(last_partition_id(definition), body.get("last-partition-id", 0))
    return {"partition-specs": listed, "default-spec-id": number, "last-partition-id": newest}


def _plain_fields(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("source-id", "field-id", "transform", "name")
    return [{name: field[name] for name in names} for field in spec["fields"]]


def _with_initial(schema: dict[str, Any], before: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a schema whose columns keep their initial defaults for older files.

    A column that was dropped and is restored gets the default of the older schemas that had it.
    """
    key = "initial-default"
    every = (f for known in before for f in known["fields"])
    values = {f["id"]: f[key] for f in every if f.get(key) is not None}
    fields = [{**f, key: values[f["id"]]} if f["id"] in values else f for f in schema["fields"]]
    return {**schema, "fields": fields}
