"""Converts definitions to parts of a metadata document (schemas, specs, properties), and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable, InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.extra import check_installed
from lakeward.formats.iceberg.names import NAME_MAPPING
from lakeward.formats.iceberg.schema import not_written, parse_schema, schema_json, schema_notes
from lakeward.formats.iceberg.spec import last_partition_id, parse_specs, specs_of_clone
from lakeward.formats.iceberg.values import from_json
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema
from lakeward.model.values import Value

FORMAT_VERSION: Final = "format-version"
BY_ID: Final = "by_id"
"""A key that older versions of Lakeward wrote in definitions; it has no effect any more."""
COMMENT: Final = "comment"
NAME: Final = "lakeward.name"
CREATED: Final = "lakeward.created"
"""The property that records who created the table and when: there is no snapshot for it yet."""
_COLUMNS: Final = "lakeward.columns"
_CONSTRAINT: Final = "lakeward.constraint."
OWN_PREFIXES: Final = (NAME, CREATED, _COLUMNS, _CONSTRAINT)
"""Prefixes of the names of properties that are reserved for Lakeward."""
_OWN: Final = (NAME, CREATED, COMMENT, _COLUMNS, NAME_MAPPING)
_WRITABLE: Final = (2, 3)
ROW_IDS_SINCE: Final = 3
DEFAULTS_SINCE: Final = 3
_UNSORTED: Final = {"order-id": 0, "fields": []}


def new_protocol(properties: Mapping[str, str]) -> dict[str, Any]:
    """Return the protocol of a new table: the format version that its properties ask for, or 2.

    Raise `UnsupportedFeature` for another version than 2 and 3.
    """
    asked = properties.get(FORMAT_VERSION, "2")
    if asked not in map(str, _WRITABLE):
        what = f"Iceberg's format version {asked} cannot be written by the embedded engine."
        raise UnsupportedFeature(what, hint="Use 2 or 3, or write the table with Spark.")
    return {FORMAT_VERSION: int(asked)}


def check_writable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` or `MissingExtra` if the embedded engine cannot write a table."""
    check_installed()
    version = definition.protocol[FORMAT_VERSION]
    if version not in _WRITABLE:
        what = f"Table {table} has Iceberg's format version {version}."
        hint = "Upgrade it first: table.alter().set_property('format-version', '2').commit()."
        raise UnsupportedFeature(what, hint=hint, table=table)
    for column, kind in not_written(definition.schema):
        what = f"Column {column} of table {table} has the Iceberg type {kind}."
        hint = "The embedded engine only reads columns of this type; write the table with Spark."
        raise UnsupportedFeature(what, hint=hint, table=table, column=column)


def has_defaults(definition: Definition) -> bool:
    """Return whether the table's format version has column defaults."""
    return bool(definition.protocol[FORMAT_VERSION] >= DEFAULTS_SINCE)


def new_document(
    head: Head,
    definition: Definition,
    location: str,
    *,
    at_ms: int,
    created_by: Mapping[str, Any],
    source: Document | None = None,
) -> Document:
    """Return the first document of a table, without a snapshot and without its own location.

    `created_by` has facts about the creation, as plain JSON values. `source` is the newest document
    of the table of which this one is a clone: numbers of snapshots and rows continue there, because
    the shared files may contain them. Partition specs and names in files without field ids stay.
    """
    created = orjson.dumps({"at_ms": at_ms, **created_by}).decode()
    specs = () if source is None else specs_of(source.body).values()
    listed, default = specs_of_clone(specs, definition)
    known = {} if source is None else source.properties
    mapping = {NAME_MAPPING: known[NAME_MAPPING]} if NAME_MAPPING in known else {}
    body: dict[str, Any] = {
        FORMAT_VERSION: definition.protocol[FORMAT_VERSION],
        "table-uuid": head.uuid,
        "location": location,
        "last-sequence-number": 0 if source is None else source.sequence_number,
        "last-updated-ms": at_ms,
        "last-column-id": definition.schema.last_id,
        "current-schema-id": 0,
        "schemas": [schema_json(definition.schema, 0)],
        "default-spec-id": default,
        "partition-specs": listed,
        "last-partition-id": last_partition_id(definition),
        "default-sort-order-id": 0,
        "sort-orders": [_UNSORTED],
        "properties": {**properties_json(head, definition), **mapping, CREATED: created},
        "current-snapshot-id": None,
        "refs": {},
        "statistics": [],
        "partition-statistics": [],
    }
    if definition.protocol[FORMAT_VERSION] >= ROW_IDS_SINCE:
        body["next-row-id"] = 0 if source is None else source.next_row_id or 0
    return Document("", body)


def properties_json(head: Head, definition: Definition) -> dict[str, str]:
    """Return the table properties for a definition.

    They include what Iceberg has no other place for: name, comment, constraints, notes on columns.
    """
    out = {k: v for k, v in definition.properties.items() if k != FORMAT_VERSION}
    out[NAME] = str(head.name)
    if definition.comment is not None:
        out[COMMENT] = definition.comment
    out |= {f"{_CONSTRAINT}{k}": v for k, v in definition.constraints.items()}
    notes = schema_notes(definition.schema)
    if notes:
        out[_COLUMNS] = orjson.dumps(notes).decode()
    return out


def definition_of(document: Document, schema_id: int | None = None) -> Definition:
    """Return the definition in a document, with its current schema or the schema of `schema_id`.

    Raise `CorruptTable` or `UnsupportedFeature`.
    """
    body = document.body
    if document.format_version not in (1, 2, 3):
        what = f"{document.location} has format version {document.format_version}."
        raise UnsupportedFeature(what, hint="Upgrade lakeward.")
    properties = document.properties
    try:
        source = _schema_of(body, schema_id)
        notes = orjson.loads(properties.get(_COLUMNS, "{}"))
        schema = parse_schema(source, body["last-column-id"], notes)
        partition_by, derived = parse_specs(specs_of(body).values(), _spec_of(body), schema)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, UnsupportedFeature):
            raise
        if isinstance(error, InvalidInput):
            raise UnsupportedFeature(error.what, hint="Read the table with Spark.") from error
        what = f"{document.location} does not describe a table: {error!r}."
        raise CorruptTable(what, path=document.location) from error
    return Definition(
        schema=schema,
        partition_by=partition_by,
        properties={
            k: v for k, v in properties.items() if k not in _OWN and not k.startswith(_CONSTRAINT)
        },
        constraints={
            k.removeprefix(_CONSTRAINT): v
            for k, v in properties.items()
            if k.startswith(_CONSTRAINT)
        },
        protocol={FORMAT_VERSION: document.format_version},
        comment=properties.get(COMMENT),
        derived=derived,
        whole_files=True,
    )


def specs_of(body: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return all partition specs in the body of a document, by spec id."""
    if "partition-specs" in body:
        return {s["spec-id"]: s for s in body["partition-specs"]}
    # Old tables have one spec without field ids, which count from 1000.
    fields = [{"field-id": 1000 + n, **f} for n, f in enumerate(body.get("partition-spec", []))]
    return {0: {"spec-id": 0, "fields": fields}}


def schemas_of(body: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Return all schemas in the body of a document, by schema id."""
    if body.get("schemas"):
        return {s["schema-id"]: s for s in body["schemas"]}
    return {0: {**body["schema"], "schema-id": 0}}


def created_of(document: Document) -> dict[str, Any]:
    """Return the facts about a table's creation; empty if Lakeward did not create the table."""
    try:
        found = orjson.loads(document.properties.get(CREATED, "{}"))
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def initial_defaults(document: Document, schema: Schema) -> dict[int, Value]:
    """Return the `initial-default` of each field of `schema` that has one in the metadata, by id.

    It is the value of a column in files that were written before the column was added.
    """
    found: dict[int, Any] = {}
    _collect_defaults(list(schemas_of(document.body).values()), found)
    return {f.id: from_json(f.type, found[f.id]) for f in schema.walk() if f.id in found}


def _collect_defaults(source: Any, out: dict[int, Any]) -> None:
    if isinstance(source, list):
        for part in source:
            _collect_defaults(part, out)
    elif isinstance(source, dict):
        if source.get("initial-default") is not None and not isinstance(source["type"], dict):
            out[source["id"]] = source["initial-default"]
        _collect_defaults(list(source.values()), out)


def _schema_of(body: Mapping[str, Any], schema_id: int | None) -> Mapping[str, Any]:
    known = schemas_of(body)
    wanted = body.get("current-schema-id", 0) if schema_id is None else schema_id
    return known[wanted]


def _spec_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return specs_of(body)[body.get("default-spec-id", 0)]
