"""Rows taken out of files: whole files, rows deleted in place, or files written again.

Of a file only the columns that tell which rows go are read first. A file without such rows stays as
it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import pyarrow as pa

from lakeward.engines.arrow import keys as arrow_keys
from lakeward.engines.arrow.masked import POSITION
from lakeward.model.expressions.nodes import Expression
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.read.plan import file_always_matches
from lakeward.read.scan import is_numbered, read_numbered
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.plan.validate import matching, violates
from lakeward.write.rows import rewrite
from lakeward.write.rows.marking import is_marked_by, mark
from lakeward.write.stage.stager import Stager


class Going(Protocol):
    """Tells which rows go."""

    def always(self, file: DataFile) -> bool:
        """Whether all rows of a file surely go."""

    def read(self, storage: Storage, change: Change, file: LoggedFile) -> pa.Table:
        """The rows of a file that go, with their positions."""

    def kept(self, change: Change, rows: pa.Table) -> pa.Table:
        """The rows that stay."""


@dataclass(frozen=True, slots=True)
class InScope:
    """Rows for which an expression is true go; None stands for all rows."""

    scope: Expression | None

    def always(self, file: DataFile) -> bool:
        """Whether the expression is surely true for all rows."""
        return self.scope is None or file_always_matches(self.scope, file)

    def read(self, storage: Storage, change: Change, file: LoggedFile) -> pa.Table:
        """Read by the columns of the expression."""
        definition = change.definition
        found = read_numbered(storage, change.head, definition, file, columns=[], where=self.scope)
        return found.read_all()

    def kept(self, change: Change, rows: pa.Table) -> pa.Table:
        """The rows for which it is not true."""
        if self.scope is None:
            return rows.slice(0, 0)
        return matching(rows, violates(self.scope), f"The condition on {change.head.name}")


@dataclass(frozen=True, slots=True)
class WithKeys:
    """Rows go whose key is among some keys; the columns of `keys` make the key."""

    keys: pa.Table

    def always(self, file: DataFile) -> bool:  # noqa: ARG002  bounds do not tell
        """Never known before."""
        return False

    def read(self, storage: Storage, change: Change, file: LoggedFile) -> pa.Table:
        """Read by the columns of the key."""
        names = self.keys.column_names
        found = read_numbered(storage, change.head, change.definition, file, columns=names)
        return arrow_keys.only(found.read_all(), self.keys)

    def kept(self, change: Change, rows: pa.Table) -> pa.Table:  # noqa: ARG002
        """The rows with other keys."""
        return arrow_keys.without(rows, self.keys)


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

    def remove(self, files: Sequence[LoggedFile], going: Going) -> list[Replaced]:
        """Take rows out; the files that had some.

        Args:
            files: Those that may have some.
            going: Tells which rows go.

        Raises:
            UnsupportedFeature: A file's rows need another engine.
            InvalidExpression: An expression cannot be computed for a row.
        """
        definition = self.change.definition
        out, marked = list[Replaced](), list[tuple[LoggedFile, pa.ChunkedArray]]()
        for file in files:
            if going.always(file.file):
                out.append(Replaced(file, ()))
                continue
            if not is_numbered(definition):
                out += self._rewritten(file, going, looked=False)
                continue
            gone = going.read(self.storage, self.change, file)[POSITION]
            if len(gone) and len(gone) == file.file.live_rows:
                out.append(Replaced(file, ()))
            elif len(gone) and is_marked_by(definition, file, len(gone)):
                marked.append((file, gone))
            elif len(gone):
                out += self._rewritten(file, going)
        if marked:
            self.before_writing()
        new = mark(self.stager, marked)
        out += [Replaced(file, (after,)) for (file, _), after in zip(marked, new, strict=True)]
        return out

    def _rewritten(self, file: LoggedFile, going: Going, *, looked: bool = True) -> list[Replaced]:
        """Write a file again, unless nobody `looked` before and all its rows stay."""
        rows = partial(rewrite.rows_of, self.storage, self.change, file)
        if not looked and all(going.kept(self.change, r).num_rows == r.num_rows for r in rows()):
            return []
        self.before_writing()
        kept = (going.kept(self.change, some) for some in rows())
        written = rewrite.write_again(self.stager, kept)
        reach("rows.rewritten")
        return [Replaced(file, tuple(written))]
