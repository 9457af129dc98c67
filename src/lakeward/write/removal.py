"""Rows of a scope taken out of files: whole files, rows deleted in place, or files written again.

Of a file only the columns that the scope speaks of are read first. A file without such rows stays
as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from lakeward.engines.arrow.masked import POSITION
from lakeward.model.expression import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.read.plan import file_always_matches
from lakeward.read.scan import is_numbered, read_numbered
from lakeward.storage.base import Storage
from lakeward.write import rewrite
from lakeward.write.change import Change
from lakeward.write.marking import is_marked_by, mark
from lakeward.write.stage import Stager


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file of which rows go, and what takes its place: nothing where none stay."""

    file: LoggedFile
    files: tuple[DataFile, ...]


@dataclass
class Removal:
    """Takes rows out of a table's files.

    Attributes:
        storage: Where they are.
        stager: Writes what takes their place.
        change: Of the table.
        before_writing: Called before a file is written.
    """

    storage: Storage
    stager: Stager
    change: Change
    before_writing: Callable[[], None]

    def remove(self, files: Sequence[LoggedFile], scope: Expression | None) -> list[Replaced]:
        """Take the rows of a scope out; the files that had some.

        Args:
            files: Those that may have some.
            scope: None stands for all rows.

        Raises:
            UnsupportedFeature: A file's rows need another engine.
            InvalidExpression: The scope cannot be computed for a row.
        """
        out, marked = list[Replaced](), list[tuple[LoggedFile, pa.Array]]()
        for file in files:
            if scope is None or file_always_matches(scope, file.file):
                out.append(Replaced(file, ()))
                continue
            gone = self._gone(file, scope)
            if gone is None:
                out.append(self._rewritten(file, scope))
            elif len(gone) == file.file.live_rows:
                out.append(Replaced(file, ()))
            elif len(gone) and is_marked_by(self.change.definition, file, len(gone)):
                marked.append((file, gone))
            elif len(gone):
                out.append(self._rewritten(file, scope))
        if marked:
            self.before_writing()
        new = mark(self.stager, marked)
        out += [Replaced(file, (after,)) for (file, _), after in zip(marked, new, strict=True)]
        return out

    def _gone(self, file: LoggedFile, scope: Expression) -> pa.ChunkedArray | None:
        """The positions of the rows that go; None where rows cannot be told by their positions."""
        definition = self.change.definition
        if not is_numbered(file, definition):
            return None
        found = read_numbered(
            self.storage, self.change.head, definition, file, columns=[], where=scope
        )
        return found.read_all()[POSITION]

    def _rewritten(self, file: LoggedFile, scope: Expression) -> Replaced:
        self.before_writing()
        kept = rewrite.survivors(self.storage, self.stager, self.change, file, scope)
        return Replaced(file, tuple(kept))
