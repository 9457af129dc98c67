"""Row ids, which a row keeps when it is updated or moved to another file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from lakeward.model.definition import Definition
from lakeward.model.file import DataFile
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Primitive

ROW_ID: Final = 2_147_483_540
VERSION_ID: Final = 2_147_483_539
"""Field ids that no user's column has; Iceberg has reserved them for the same two columns."""
HIDDEN: Final = frozenset({ROW_ID, VERSION_ID})
_WHOLE: Final = Primitive("int64")


@dataclass(frozen=True, slots=True)
class RowIds:
    """Where a table's files store the ids of moved rows.

    Attributes:
        row_id: The file column with the ids; null, or no column, for rows whose id follows from
            `first`.
        version: The file column with the version that last changed a row.
        first: Returns the id of a file's first row and the version of its rows; None without ids.
    """

    row_id: str
    version: str
    first: Callable[[DataFile], tuple[int, int] | None]

    @property
    def names(self) -> tuple[str, str]:
        """Names of both columns: of row ids and of versions."""
        return self.row_id, self.version

    def within(self, definition: Definition) -> Definition:
        """Return the definition with both columns, which readers of the table do not see."""
        hidden = (Field(ROW_ID, self.row_id, _WHOLE), Field(VERSION_ID, self.version, _WHOLE))
        schema = definition.schema
        return replace(definition, schema=Schema((*schema.fields, *hidden), schema.last_id))
