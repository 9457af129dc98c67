"""The OpenAPI description of the Iceberg REST catalog: its routes, and the bodies that they take.

Bodies are described as far as the lake uses them; what a table's metadata has inside is defined by
Iceberg's specification.
"""

from __future__ import annotations

from typing import Any, Final

from lakeward.web.iceberg.requests import PREFIX

_Schema = dict[str, Any]
_TEXT: Final[_Schema] = {"type": "string"}
_NUMBER: Final[_Schema] = {"type": "integer", "format": "int64"}
_FLAG: Final[_Schema] = {"type": "boolean"}


def _one_of(*values: str) -> _Schema:
    return {"type": "string", "enum": list(values)}


def _list(item: _Schema, at_least: int = 0) -> _Schema:
    return {"type": "array", "items": item, "minItems": at_least}


def _map(value: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": value}


def _object(required: dict[str, _Schema], **others: _Schema) -> _Schema:
    optional = {name.replace("_", "-"): schema for name, schema in others.items()}
    return {
        "type": "object",
        "properties": {**required, **optional},
        "required": list(required),
    }


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_PROPERTIES: Final = _map(_TEXT)
_NAMESPACE: Final = _list(_TEXT, 1)
_TABLE_TYPE: Final[_Schema] = {
    "anyOf": [_one_of("boolean", "int", "long", "double", "string", "date"), _ref("StructType")]
}
_FIELD: Final = _object(
    {"id": _NUMBER, "name": _TEXT, "required": _FLAG, "type": _TABLE_TYPE}, doc=_TEXT
)
_TRANSFORM: Final = _one_of("identity", "year", "month", "day", "hour", "void", "bucket[4]")
_SNAPSHOT: Final = _object(
    {
        "snapshot-id": _NUMBER,
        "timestamp-ms": _NUMBER,
        "manifest-list": _TEXT,
        "summary": _object({"operation": _one_of("append", "overwrite", "delete", "replace")}),
    },
    parent_snapshot_id=_NUMBER,
    sequence_number=_NUMBER,
    schema_id=_NUMBER,
)


def _update(action: str, required: dict[str, _Schema], **others: _Schema) -> _Schema:
    return _object({"action": _one_of(action), **required}, **others)


def _requirement(kind: str, **required: _Schema) -> _Schema:
    named = {name.replace("_", "-"): schema for name, schema in required.items()}
    return _object({"type": _one_of(kind), **named})


_UPDATES: Final = (
    _update("assign-uuid", {"uuid": {"type": "string", "format": "uuid"}}),
    _update("upgrade-format-version", {"format-version": _NUMBER}),
    _update("add-schema", {"schema": _ref("Schema")}),
    _update("set-current-schema", {"schema-id": _NUMBER}),
    _update("add-spec", {"spec": _ref("PartitionSpec")}),
    _update("set-default-spec", {"spec-id": _NUMBER}),
    _update("add-sort-order", {"sort-order": _ref("SortOrder")}),
    _update("set-default-sort-order", {"sort-order-id": _NUMBER}),
    _update("add-snapshot", {"snapshot": _ref("Snapshot")}),
    _update(
        "set-snapshot-ref",
        {"ref-name": _TEXT, "type": _one_of("branch", "tag"), "snapshot-id": _NUMBER},
    ),
    _update("remove-snapshot-ref", {"ref-name": _TEXT}),
    _update("remove-snapshots", {"snapshot-ids": _list(_NUMBER)}),
    _update("set-location", {"location": _TEXT}),
    _update("set-properties", {"updates": _PROPERTIES}),
    _update("remove-properties", {"removals": _list(_TEXT)}),
)
_REQUIREMENTS: Final = (
    _requirement("assert-create"),
    _requirement("assert-table-uuid", uuid=_TEXT),
    _requirement("assert-ref-snapshot-id", ref=_TEXT, snapshot_id=_NUMBER),
    _requirement("assert-last-assigned-field-id", last_assigned_field_id=_NUMBER),
    _requirement("assert-current-schema-id", current_schema_id=_NUMBER),
    _requirement("assert-last-assigned-partition-id", last_assigned_partition_id=_NUMBER),
    _requirement("assert-default-spec-id", default_spec_id=_NUMBER),
    _requirement("assert-default-sort-order-id", default_sort_order_id=_NUMBER),
)
_SCHEMAS: Final[dict[str, _Schema]] = {
    "Identifier": _object({"namespace": _NAMESPACE, "name": _TEXT}),
    "StructType": _object({"type": _one_of("struct"), "fields": _list(_FIELD)}),
    "Schema": _object({"type": _one_of("struct"), "fields": _list(_FIELD)}, schema_id=_NUMBER),
    "PartitionSpec": _object(
        {"fields": _list(_object({"source-id": _NUMBER, "name": _TEXT, "transform": _TRANSFORM}))},
        spec_id=_NUMBER,
    ),
    "SortOrder": _object(
        {
            "order-id": _NUMBER,
            "fields": _list(
                _object(
                    {
                        "source-id": _NUMBER,
                        "transform": _TRANSFORM,
                        "direction": _one_of("asc", "desc"),
                        "null-order": _one_of("nulls-first", "nulls-last"),
                    }
                )
            ),
        }
    ),
    "Snapshot": _SNAPSHOT,
    "Filter": {
        "anyOf": [
            _object({"type": _one_of("eq", "lt", "gt-eq"), "term": _TEXT, "value": {}}),
            _object({"type": _one_of("is-null", "not-null"), "term": _TEXT}),
            _object({"type": _one_of("in"), "term": _TEXT, "values": _list({})}),
            _object({"type": _one_of("and", "or"), "left": _ref("Filter"), "right": _TEXT}),
        ]
    },
    "ViewVersion": _object(
        {
            "version-id": _NUMBER,
            "timestamp-ms": _NUMBER,
            "schema-id": _NUMBER,
            "summary": _PROPERTIES,
            "default-namespace": _NAMESPACE,
            "representations": _list(
                _object({"type": _one_of("sql"), "sql": _TEXT, "dialect": _TEXT})
            ),
        }
    ),
    "TableCommit": _object(
        {
            "requirements": _list({"anyOf": list(_REQUIREMENTS)}),
            "updates": _list({"anyOf": list(_UPDATES)}),
        },
        identifier=_ref("Identifier"),
    ),
}
_RENAMING: Final = _object({"source": _ref("Identifier"), "destination": _ref("Identifier")})
_REGISTRATION: Final = _object({"name": _TEXT, "metadata-location": _TEXT})
_BODIES: Final[dict[str, _Schema]] = {
    "/namespaces": _object({"namespace": _NAMESPACE}, properties=_PROPERTIES),
    "/namespaces/{namespace}/properties": _object({}, updates=_PROPERTIES, removals=_list(_TEXT)),
    "/namespaces/{namespace}/tables": _object(
        {"name": _TEXT, "schema": _ref("Schema")},
        location=_TEXT,
        partition_spec=_ref("PartitionSpec"),
        write_order=_ref("SortOrder"),
        stage_create=_FLAG,
        properties=_PROPERTIES,
    ),
    "/namespaces/{namespace}/register": _REGISTRATION,
    "/namespaces/{namespace}/register-view": _REGISTRATION,
    "/namespaces/{namespace}/tables/{iceberg_table}": _ref("TableCommit"),
    "/namespaces/{namespace}/tables/{iceberg_table}/plan": _object(
        {}, snapshot_id=_NUMBER, select=_list(_TEXT), filter=_ref("Filter"), case_sensitive=_FLAG
    ),
    "/namespaces/{namespace}/tables/{iceberg_table}/metrics": _object({"report-type": _TEXT}),
    "/tables/rename": _RENAMING,
    "/views/rename": _RENAMING,
    "/transactions/commit": _object({"table-changes": _list(_ref("TableCommit"), 1)}),
    "/namespaces/{namespace}/views": _object(
        {"name": _TEXT, "schema": _ref("Schema"), "view-version": _ref("ViewVersion")},
        properties=_PROPERTIES,
    ),
    "/namespaces/{namespace}/views/{iceberg_view}": _object(
        {"updates": _list(_object({"action": _TEXT}))}, requirements=_list(_object({"type": _TEXT}))
    ),
    "/aws/s3/sign": _object(
        {
            "region": _TEXT,
            "uri": _TEXT,
            "method": _one_of("GET", "HEAD", "PUT", "POST", "DELETE"),
            "headers": _map(_list(_TEXT)),
        },
        body=_TEXT,
    ),
}
_CREDENTIALS: Final = _object({"grant_type": _one_of("client_credentials"), "client_secret": _TEXT})


def describe_bodies(described: dict[str, Any]) -> dict[str, Any]:
    """Return a description of the catalog's routes with the bodies that they take."""
    paths = {path: dict(operations) for path, operations in described["paths"].items()}
    forms = {f"{PREFIX}/oauth/tokens": ("application/x-www-form-urlencoded", _CREDENTIALS)}
    forms |= {f"{PREFIX}{path}": ("application/json", body) for path, body in _BODIES.items()}
    for path, (kind, schema) in forms.items():
        body = {"required": True, "content": {kind: {"schema": schema}}}
        paths[path]["post"] = {**paths[path]["post"], "requestBody": body}
    known = described.get("components", {})
    schemas = {**known.get("schemas", {}), **_SCHEMAS}
    return {**described, "paths": paths, "components": {**known, "schemas": schemas}}
