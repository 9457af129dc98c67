"""Row ids on the branch of a Delta table whose rows have no ids.

The branch has row tracking, so that the engine keeps the ids of rows that it moves or changes, in
hidden columns of files. Readers of the table do not see these columns, and the table's log does not
mention them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.formats.delta.protocol import extended
from lakeward.formats.delta.row_tracking import mark_of, named, with_first
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.row_ids import RowIds

_FIRST: Final = 2**40
"""The first id: greater than ids of rows added to a branch before it has the table's files."""
_UNCOUNTED: Final = 2**32
"""How many ids are reserved for a file whose number of rows is not known."""


@dataclass
class BranchIds:
    """Assigns the row ids of one branch to the rows of its table's files."""

    _columns: tuple[str, str] = field(
        default_factory=lambda: (
            f"_row-id-col-{uuid.uuid4()}",
            f"_row-commit-version-col-{uuid.uuid4()}",
        )
    )
    _next: int = _FIRST
    _firsts: dict[str, int] = field(default_factory=dict)

    def within(self, definition: Definition) -> Definition:
        """Return the branch's definition with row tracking and its hidden columns."""
        found = named(definition, self._columns)
        return replace(found, protocol=extended(found))

    def assign(self, base: Iterable[LoggedFile]) -> list[LoggedFile]:
        """Assign ids to the rows of the table's files; return the files with their first ids."""
        out = []
        for file in base:
            self._firsts[file.path] = self._next
            out.append(replace(file, file=with_first(file.file, self._next)))
            self._next += _UNCOUNTED if file.rows is None else file.rows
        return out

    @property
    def domain(self) -> dict[str, str | None]:
        """The domain metadata with the highest assigned id; empty before files have ids."""
        return mark_of(self._next - 1) if self._firsts else {}

    def row_ids(self) -> RowIds:
        """Return the hidden columns, and a function that returns the first id of a file."""
        return RowIds(*self._columns, self._first)

    def _first(self, file: DataFile) -> tuple[int, int] | None:
        found = self._firsts.get(file.path)
        return None if found is None else (found, 0)
