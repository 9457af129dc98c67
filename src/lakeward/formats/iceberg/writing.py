"""Which Iceberg tables the embedded engine can write."""

from __future__ import annotations

from typing import Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.definition import FORMAT_VERSION
from lakeward.formats.iceberg.extra import check_installed
from lakeward.formats.iceberg.schema import not_written
from lakeward.model.definition import Definition

_WRITABLE: Final = (2,)


def check_writable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` or `MissingExtra` if the embedded engine cannot write."""
    check_installed()
    version = definition.protocol[FORMAT_VERSION]
    if version not in _WRITABLE:
        what = f"Table {table} has Iceberg's format version {version}."
        hint = "The embedded engine writes version 2; write it with Spark."
        raise UnsupportedFeature(what, hint=hint, table=table)
    for column, kind in not_written(definition.schema):
        what = f"Column {column} of table {table} has the Iceberg type {kind}."
        hint = "The embedded engine only reads columns of this type; write the table with Spark."
        raise UnsupportedFeature(what, hint=hint, table=table, column=column)
