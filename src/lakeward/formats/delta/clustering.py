"""Reads the clustering columns of Delta tables from the domain `delta.clustering`."""

from __future__ import annotations

from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.delta.schema import physical_name
from lakeward.log import domains
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition

DOMAIN: Final = "delta.clustering"
_COLUMNS: Final = "clusteringColumns"


def clustering_columns(session: Session, head: Head, definition: Definition) -> list[str]:
    """Return the names of a table's clustering columns; of a nested field, its top-level column."""
    if "clustering" not in (definition.protocol.get("writerFeatures") or ()):
        return []
    text = domains.newest(session, head.table_id, DOMAIN)
    if text is None:
        return []
    try:
        found = {_first(column) for column in orjson.loads(text)[_COLUMNS]}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        what = f"The clustering of {head.name} cannot be understood: {text}."
        raise CorruptTable(what, table=str(head.name)) from error
    return [f.name for f in definition.schema.fields if physical_name(f) in found]


def _first(column: Any) -> str:
    """Return the outermost name of a column path, which is a string or a list of strings."""
    return str(column) if isinstance(column, str) else str(column[0])
