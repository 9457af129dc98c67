"""Executes a plan for rows: a DELETE, an UPDATE or a MERGE.

Files that are deleted completely, according to their statistics, are removed without being read.
Of the other files, several at a time, only the columns that decide which rows change are read, and
only row groups that may contain such rows. A file with such rows is rewritten; or, if the table has
deletion vectors and the rows are few, they are marked by a deletion vector and their new values are
written to a new file. Memory contains parts of a few files, and the positions of changing rows.

New values are checked like appended rows; unchanged rows are written without checks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from lakeward.engines.arrow.keys import KeyIndex
from lakeward.model.expressions.nodes import conjuncts
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.progress import counted
from lakeward.model.steps import reach
from lakeward.read.plan import file_may_match, to_prune_by
from lakeward.write.plan.change import RowChanges, merge_metrics, update_metrics
from lakeward.write.plan.row_plan import scopes_of
from lakeward.write.rows.find import Found
from lakeward.write.rows.marking import is_marked_by, mark
from lakeward.write.rows.work import RowWork

T = TypeVar("T")
R = TypeVar("R")
_THREADS: Final = 4
"""The most files that are processed at a time; a part of each is in memory."""
_HELD: Final = 4_000_000
"""The most positions of changing rows that are kept in memory; beyond that, files are searched
again when they are written."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A file with changed rows, the files that replace it, and counts of its rows.

    Attributes:
        copied: Unchanged rows that were written to the new files.
    """

    file: LoggedFile
    files: tuple[DataFile, ...]
    updated: int
    deleted: int
    copied: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The result of the execution of a plan.

    `added` are files with inserted rows, or with new values of rows that were marked as deleted;
    `given` is the number of source rows; `change_files` contain the changed rows, if recorded.
    """

    replaced: tuple[Replaced, ...]
    added: tuple[DataFile, ...]
    inserted: int
    given: int
    change_files: tuple[DataFile, ...]

    def result(self, files: int) -> RowChanges:
        """Return counts of rows and files for the user; `files` is the table's number of files."""
        touched = len(self.replaced)
        # Whole files of an adopted log may have no row counts.
        unknown = any(not r.files and r.file.file.live_rows is None for r in self.replaced)
        return RowChanges(
            self.inserted,
            sum(r.updated for r in self.replaced),
            None if unknown else self.deleted,
            touched,
            files - touched,
        )

    @property
    def deleted(self) -> int:
        """The number of deleted rows, without files whose row counts the log lacks."""
        return sum(r.deleted for r in self.replaced)

    def metrics(self, operation: str, result: RowChanges) -> dict[str, int | None]:
        """Return the metrics for the commit."""
        result = replace(result, deleted=self.deleted)
        copied = sum(r.copied for r in self.replaced)
        if operation == "MERGE":
            return merge_metrics(result, self.given, copied)
        return update_metrics(result, copied)


def carried_out(
    work: RowWork, files: Sequence[LoggedFile], before_writing: Callable[[], None]
) -> Done:
    """Execute a plan on files: find the changing rows of all files first, then write.

    `before_writing` is called once before the first write, if something is written.
    """
    plan, head, definition = work.plan, work.change.head, work.change.definition
    whole, some = list[LoggedFile](), list[LoggedFile]()
    for file in files:
        (whole if plan.deletes_all_of(file.file) else some).append(file)
    _match(work, some)
    marked, rest = list[Touched](), list[Touched]()
    for one in _touched(work, some):
        if work.feed is None and one.is_emptied:
            whole.append(one.file)
        else:
            (marked if is_marked_by(head, definition, one.file, one.gone) else rest).append(one)
    if marked or rest or plan.not_matched:
        before_writing()
    reach("rows.found")
    recorded: list[DataFile] = []
    replaced = [Replaced(file, (), 0, file.file.logged_rows) for file in whole]
    replaced += _each(lambda one: _rewritten(work, one, recorded), rest)
    counts: list[int] = []
    coming = _each(lambda one: _renewed(work, one, recorded), marked)
    new = itertools.chain(coming, _new(work, recorded, counts))
    added = work.kept_ids.stage(work.stager, new)
    work.checks.raise_violations()
    reach("rows.written")
    replaced += _marked(work, marked)
    return Done(tuple(replaced), tuple(added), sum(counts), plan.source.num_rows, tuple(recorded))


@dataclass(frozen=True, slots=True)
class Touched:
    """A file with changing rows, whose number is `gone`.

    `found` is None if the rows are searched again when the file is written, to save memory.
    """

    file: LoggedFile
    gone: int
    is_emptied: bool
    found: Found | None

    def found_by(self, work: RowWork) -> Found:
        """Return the changing rows of the file; search them again if they were not kept."""
        return work.look(self.file) if self.found is None else self.found


def _match(work: RowWork, files: Sequence[LoggedFile]) -> None:
    """Match rows of the files with the source by key, one block of the source at a time.

    Does nothing if the source has no blocks.
    """
    plan = work.plan
    residual = () if plan.residual is None else tuple(conjuncts(plan.residual))
    for start, keys in plan.blocks or ():
        (scope,) = scopes_of(plan.keys, keys, residual, ())
        condition = to_prune_by(scope, work.change.definition)
        some = [f for f in files if condition is None or file_may_match(condition, f.file)]
        match = partial(work.match, index=KeyIndex(keys), start=start, scope=scope)
        for _ in _each(match, some):
            pass
        _release(work)


def _release(work: RowWork) -> None:
    if work.plan.spill is not None:
        work.plan.spill.release()


def _touched(work: RowWork, files: Sequence[LoggedFile]) -> Iterable[Touched]:
    """Search all files; yield those with changing rows."""
    held = 0
    for file, found in zip(files, _each(work.look, files), strict=True):
        if found.is_empty:
            continue
        gone = len(found.gone)
        held += gone
        is_emptied = len(found.deleted) == file.file.live_rows
        yield Touched(file, gone, is_emptied, found if held <= _HELD else None)


def _rewritten(work: RowWork, one: Touched, recorded: list[DataFile]) -> Replaced:
    """Rewrite a file with the changes of its rows."""
    file, found = one.file, one.found_by(work)
    deleted = len(found.deleted)
    copied = 0

    def rows() -> Iterator[pa.Table]:
        nonlocal copied
        for part in work.parts(file, found):
            copied += part.whole.num_rows - len(part.found.gone)
            if work.check(part.after):
                recorded.extend(work.record(part))
                yield part.kept()
                yield part.after

    # New values were completed and checked; the other rows were when they were new.
    written = work.kept_ids.stage(work.stager, rows(), trusted=True)
    reach("rows.rewritten")
    _release(work)
    return Replaced(file, tuple(written), one.gone - deleted, deleted, copied)


def _renewed(work: RowWork, one: Touched, recorded: list[DataFile]) -> pa.Table:
    """Return updated rows with new values; the file's old rows will be marked as deleted."""
    found = one.found_by(work)
    if work.feed is None and not found.updated:
        return work.kept_ids.schema.empty_table()
    rows = work.changed(one.file, found)
    if not work.check(rows.after):
        return rows.after.slice(0, 0)
    recorded.extend(work.record(rows))
    return rows.after


def _new(work: RowWork, recorded: list[DataFile], counts: list[int]) -> Iterator[pa.Table]:
    """Yield the inserted rows; append the number of rows of each table to `counts`."""
    for rows in work.inserted():
        if not work.check(rows):
            continue
        if work.feed is not None:
            recorded.extend(work.feed.write_new(rows))
        counts.append(rows.num_rows)
        yield rows
        _release(work)


def _marked(work: RowWork, files: Sequence[Touched]) -> Iterable[Replaced]:
    """Mark rows as deleted by deletion vectors; yield each file with its replacement."""
    found = [one.found_by(work) for one in files]
    after = mark(
        work.stager, [(one.file, pa.array(f.gone)) for one, f in zip(files, found, strict=True)]
    )
    for one, rows, new in zip(files, found, after, strict=True):
        deleted = len(rows.deleted)
        yield Replaced(one.file, (new,), one.gone - deleted, deleted)


def _each(do: Callable[[T], R], items: Sequence[T]) -> Iterable[R]:
    """Call a function for each item in several threads; yield results in order, with progress."""
    return counted(_results(do, items), len(items))


def _results(do: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    threads = min(len(items), os.cpu_count() or 1, _THREADS)
    if threads < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        # A few at a time, so that what fails ends it soon.
        for start in range(0, len(items), threads):
            yield from pool.map(do, items[start : start + threads])
