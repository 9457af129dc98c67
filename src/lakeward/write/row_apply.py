"""A plan carried out: files looked at, and those with rows to change written again or marked.

Each file is looked at by itself, several at a time: of its rows only the columns that tell which of
them change, and only row groups that may hold some. Then every file with such rows is either
written again, or the rows that go are deleted in place, where the table asks for that and they are
few; what comes in their place is written as a new file. Memory holds the data of a merge, the rows
of a few files, and the rows that change in files that are marked.

Rows that get new values are checked like rows that are appended, with what is generated from them
computed anew; rows that stay are written as they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar

import pyarrow as pa

from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.write.marking import is_marked_by, mark
from lakeward.write.row_changes import RowChanges, merge_metrics, update_metrics
from lakeward.write.row_find import Found
from lakeward.write.row_work import RowWork
from lakeward.write.validate import Checks

T = TypeVar("T")
R = TypeVar("R")
_THREADS: Final = 4
"""So many files are worked on at once; each is held in memory while it is."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file whose rows changed.

    Attributes:
        file: As it was.
        files: What takes its place; nothing where no row stays.
        updated: How many rows were given new values.
        deleted: How many are gone.
        copied: How many were written again as they were.
    """

    file: LoggedFile
    files: tuple[DataFile, ...]
    updated: int
    deleted: int
    copied: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A plan that was carried out.

    Attributes:
        replaced: The files in which rows changed.
        added: Files of rows that are new, or that come in place of others.
        inserted: How many rows are new.
        given: How many rows of data there were.
        told: Change files, where the table has a feed.
    """

    replaced: tuple[Replaced, ...]
    added: tuple[DataFile, ...]
    inserted: int
    given: int
    told: tuple[DataFile, ...]

    def result(self, files: int) -> RowChanges:
        """What it did to a table of so many files."""
        touched = len(self.replaced)
        return RowChanges(
            self.inserted,
            sum(r.updated for r in self.replaced),
            sum(r.deleted for r in self.replaced),
            touched,
            files - touched,
        )

    def metrics(self, operation: str, result: RowChanges) -> dict[str, int | None]:
        """The same for the commit."""
        copied = sum(r.copied for r in self.replaced)
        if operation == "MERGE":
            return merge_metrics(result, self.given, copied)
        return update_metrics(result, copied)


def carried_out(
    work: RowWork, files: Sequence[LoggedFile], before_writing: Callable[[], None]
) -> Done:
    """Carry a plan out on files: look at all of them first, then write.

    Raises:
        ConstraintViolation: A row would be changed twice, or new rows that the table refuses.
    """
    looked = zip(files, _each(work.look, files), strict=True)
    touched = [(file, found) for file, found in looked if not found.is_empty]
    before_writing()
    reach("rows.found")
    definition = work.change.definition
    marked, rest = list[tuple[LoggedFile, Found]](), list[tuple[LoggedFile, Found]]()
    for file, found in touched:
        small = is_marked_by(definition, file, len(found.gone))
        (marked if small else rest).append((file, found))
    told: list[DataFile] = []
    replaced = list(_each(lambda pair: _rewritten(work, *pair, told), rest))
    coming = list(_each(lambda pair: _renewed(work, *pair, told), marked))
    new = work.inserted()
    work.checks.look_at(new)
    work.checks.settle()
    if work.feed is not None:
        told += work.feed.write_new(new)
    nothing = Checks(work.plan.table, {})
    added = work.stager.stage([*coming, new], nothing, complete=True)
    reach("rows.written")
    replaced += _marked(work, marked)
    given = work.plan.source.num_rows
    return Done(tuple(replaced), tuple(added), new.num_rows, given, tuple(told))


def _rewritten(work: RowWork, file: LoggedFile, found: Found, told: list[DataFile]) -> Replaced:
    """Write a file again, with what changes in it."""
    deleted = len(found.deleted)
    if work.feed is None and deleted == file.rows:
        return Replaced(file, (), 0, deleted)
    rows = work.rows(file, found)
    after = work.checked(rows.after)
    if work.checks.violated:
        return Replaced(file, (), after.num_rows, deleted)
    nothing = Checks(work.plan.table, {})
    written = work.stager.stage([rows.kept(), after], nothing, complete=True)
    reach("rows.rewritten")
    told += work.told(rows)
    copied = rows.whole.num_rows - len(found.gone)
    return Replaced(file, tuple(written), after.num_rows, deleted, copied)


def _renewed(work: RowWork, file: LoggedFile, found: Found, told: list[DataFile]) -> pa.Table:
    """The rows that come in place of those that go from a file that stays."""
    rows = work.changed(file, found)
    after = work.checked(rows.after)
    if not work.checks.violated:
        told += work.told(rows)
    return after


def _marked(work: RowWork, files: Sequence[tuple[LoggedFile, Found]]) -> Iterable[Replaced]:
    """Delete rows in place."""
    after = mark(work.stager, [(file, pa.array(found.gone)) for file, found in files])
    for (file, found), new in zip(files, after, strict=True):
        deleted = len(found.deleted)
        yield Replaced(file, (new,), len(found.gone) - deleted, deleted)


def _each(do: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
    """What is done with each, several at a time, in order."""
    threads = min(len(items), os.cpu_count() or 1, _THREADS)
    if threads < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        # A few at a time, so that what fails ends it soon.
        for start in range(0, len(items), threads):
            yield from pool.map(do, items[start : start + threads])
