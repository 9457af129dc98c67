"""Upgrades Iceberg tables to newer format versions, which changes metadata and no data file.

Version 2 adds sequence numbers of commits, so that delete files apply to older files only; existing
files get the number 0. Version 3 adds row ids and column defaults; the commit that upgrades a table
assigns ids to all existing rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.definition import (
    DEFAULTS_SINCE,
    FORMAT_VERSION,
    ROW_IDS_SINCE,
    schemas_of,
    specs_of,
)
from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.schema import with_defaults
from lakeward.formats.iceberg.spec import last_partition_id
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.schema import Schema

ROW_LINEAGE: Final = "row_lineage"
"""The name of the feature that an upgrade to format version 3 enables."""
_VERSIONS: Final = (2, 3)
_UNSORTED: Final = {"order-id": 0, "fields": []}


def upgraded(definition: Definition, asked: str) -> Definition:
    """Return a definition with the format version `asked`.

    Raise `InvalidInput` for an unknown version and `UnsupportedFeature` for an older version.
    """
    known = int(definition.protocol[FORMAT_VERSION])
    if not asked.isdecimal() or int(asked) not in _VERSIONS:
        what = f"{asked!r} is not a format version that can be written."
        raise InvalidInput(what, hint="Versions 2 and 3 can.", property=FORMAT_VERSION)
    version = int(asked)
    if version < known:
        what = f"The table has format version {known}, and cannot go back to {version}."
        hint = "Make a new table with the older version, and copy the rows."
        raise UnsupportedFeature(what, hint=hint, property=FORMAT_VERSION)
    if version == known:
        return definition
    after = replace(definition, protocol={**definition.protocol, FORMAT_VERSION: version})
    if FORMAT_VERSION in definition.properties:
        after = replace(after, properties={**definition.properties, FORMAT_VERSION: asked})
    if not known < DEFAULTS_SINCE <= version:
        return after
    # Rows that are there have their values, or are null: only new rows get the defaults.
    plain = tuple(replace(f, default=None) for f in definition.schema.fields)
    schema = with_defaults(definition.schema, Schema(plain, definition.schema.last_id))
    return replace(after, schema=schema)


def upgraded_body(document: Document, head: Head, definition: Definition) -> dict[str, Any]:
    """Return the keys of a document's body that an upgrade changes; none without an upgrade.

    Raise `UnsupportedFeature` for a table with snapshots that the newer version does not allow.
    """
    body, version = document.body, definition.protocol[FORMAT_VERSION]
    if version <= document.format_version:
        return {}
    out: dict[str, Any] = {FORMAT_VERSION: version}
    if document.format_version == 1:
        _check_lists(document, head)
        out |= _of_version_2(body, head, definition)
    if version >= ROW_IDS_SINCE:
        out["next-row-id"] = 0
    return out


def _check_lists(document: Document, head: Head) -> None:
    """Raise `UnsupportedFeature` if a snapshot has no manifest list, as version 1 allows."""
    if all("manifest-list" in s for s in document.all_snapshots().values()):
        return
    what = f"Snapshots of {head.name} name their manifests themselves, as version 1 allows."
    hint = "Expire them with the engine that wrote the table, and adopt it again."
    raise UnsupportedFeature(what, hint=hint, table=str(head.name))


def _of_version_2(body: Mapping[str, Any], head: Head, definition: Definition) -> dict[str, Any]:
    """Return the keys that version 2 requires and a document of version 1 may lack."""
    schemas, specs = schemas_of(body), specs_of(body)
    return {
        "table-uuid": body.get("table-uuid") or head.uuid,
        "last-sequence-number": 0,
        "schemas": list(schemas.values()),
        "current-schema-id": body.get("current-schema-id", 0),
        "partition-specs": list(specs.values()),
        "default-spec-id": body.get("default-spec-id", 0),
        "last-partition-id": max(
            int(body.get("last-partition-id") or 0), last_partition_id(definition)
        ),
        "sort-orders": body.get("sort-orders") or [_UNSORTED],
        "default-sort-order-id": body.get("default-sort-order-id", 0),
    }
