"""Operations of a transaction as statements of SQL, which lineage parses and nobody runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.model.quoting import identifier

DIALECT: Final = "databricks"
"""Of the expressions that operations of a transaction take."""


def update_text(table: str, values: Mapping[str, str], where: str | None) -> str:
    """The statement that an update of columns by expressions is."""
    written = ", ".join(f"{identifier(column)} = {value}" for column, value in values.items())
    condition = f" WHERE {where}" if where else ""
    return f"UPDATE {_name(table)} SET {written}{condition}"  # noqa: S608  is only parsed


def delete_text(table: str, where: str) -> str:
    """The statement that a deletion by a condition is."""
    return f"DELETE FROM {_name(table)} WHERE {where}"  # noqa: S608  is only parsed


def _name(table: str) -> str:
    return identifier(*table.split("."))
