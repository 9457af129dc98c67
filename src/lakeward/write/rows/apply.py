"""A plan carried out: files looked at, and those with rows to change written again or marked.

Each file is looked at by itself, several at a time: of its rows only the columns that tell which of
them change, and only row groups that may hold some. Then every file with such rows is either
written again, or the rows that go are deleted in place, where the table asks for that and they are
few; what comes in their place is written as a new file. Memory holds parts of a few files, and the
places of rows that go from files that are marked.

Rows that get new values are checked like rows that are appended, with what is generated from them
computed anew; rows that stay are written as they were.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa

from lakeward.engines.arrow.matching import KeyIndex
from lakeward.model.expressions.nodes import conjuncts
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.steps import reach
from lakeward.read.plan import file_may_match, to_prune_by
from lakeward.write.plan.row_changes import RowChanges, merge_metrics, update_metrics
from lakeward.write.plan.row_scope import scopes_of
from lakeward.write.plan.validate import Checks
from lakeward.write.rows.find import Found
from lakeward.write.rows.marking import is_marked_by, mark
from lakeward.write.rows.work import RowWork

T = TypeVar("T")
R = TypeVar("R")
_THREADS: Final = 4
"""So many files are worked on at once; a part of each is held in memory while it is."""
_HELD: Final = 4_000_000
"""So many rows are noted as changing when files are looked at; beyond that files are looked at
again when they are written."""


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
    _match(work, files)
    touched = list(_touched(work, files))
    before_writing()
    reach("rows.found")
    definition = work.change.definition
    marked, rest = list[Touched](), list[Touched]()
    for one in touched:
        (marked if is_marked_by(definition, one.file, one.gone) else rest).append(one)
    told: list[DataFile] = []
    replaced = list(_each(lambda one: _rewritten(work, one, told), rest))
    counts: list[int] = []
    coming = _each(lambda one: _renewed(work, one, told), marked)
    new = itertools.chain(coming, _new(work, told, counts))
    added = work.stager.stage(new, Checks(work.plan.table, {}), complete=True)
    work.checks.settle()
    reach("rows.written")
    replaced += _marked(work, marked)
    given = work.plan.source.num_rows
    return Done(tuple(replaced), tuple(added), sum(counts), given, tuple(told))


@dataclass(frozen=True, slots=True)
class Touched:
    """A file with rows to change.

    Attributes:
        file: As it is.
        gone: How many rows do not stay as they are.
        found: These; None where they are looked for again, because memory holds enough of them.
    """

    file: LoggedFile
    gone: int
    found: Found | None

    def found_by(self, work: RowWork) -> Found:
        """The rows that change."""
        return work.look(self.file) if self.found is None else self.found


def _match(work: RowWork, files: Sequence[LoggedFile]) -> None:
    """Find the partners of all rows, where the data has blocks: each block in all files."""
    plan = work.plan
    also = () if plan.also is None else tuple(conjuncts(plan.also))
    for start, keys in plan.blocks or ():
        (scope,) = scopes_of(plan.keys, keys, also, ())
        condition = to_prune_by(scope, work.change.definition)
        some = [f for f in files if condition is None or file_may_match(condition, f.file)]
        match = partial(work.match, index=KeyIndex(keys), start=start, scope=scope)
        for _ in _each(match, some):
            pass
        _rest(work)


def _rest(work: RowWork) -> None:
    if work.plan.spill is not None:
        work.plan.spill.release()


def _touched(work: RowWork, files: Sequence[LoggedFile]) -> Iterable[Touched]:
    """Look at all files."""
    held = 0
    for file, found in zip(files, _each(work.look, files), strict=True):
        if found.is_empty:
            continue
        gone = len(found.gone)
        held += gone
        yield Touched(file, gone, found if held <= _HELD else None)


def _rewritten(work: RowWork, one: Touched, told: list[DataFile]) -> Replaced:
    """Write a file again, with what changes in it."""
    file, found = one.file, one.found_by(work)
    deleted = len(found.deleted)
    if work.feed is None and deleted == file.rows:
        return Replaced(file, (), 0, deleted)
    copied = 0

    def rows() -> Iterator[pa.Table]:
        nonlocal copied
        for part in work.parts(file, found):
            after = work.checked(part.after)
            copied += part.whole.num_rows - len(part.found.gone)
            if not work.checks.violated:
                told.extend(work.told(part))
                yield part.kept()
                yield after

    written = work.stager.stage(rows(), Checks(work.plan.table, {}), complete=True)
    reach("rows.rewritten")
    _rest(work)
    return Replaced(file, tuple(written), one.gone - deleted, deleted, copied)


def _renewed(work: RowWork, one: Touched, told: list[DataFile]) -> pa.Table:
    """The rows that come in place of those that go from a file that stays."""
    rows = work.changed(one.file, one.found_by(work))
    after = work.checked(rows.after)
    if work.checks.violated:
        return after.slice(0, 0)
    told.extend(work.told(rows))
    return after


def _new(work: RowWork, told: list[DataFile], counts: list[int]) -> Iterator[pa.Table]:
    """The rows that are inserted; how many they are goes into `counts`."""
    for rows in work.inserted():
        work.checked(rows)
        if work.checks.violated:
            continue
        if work.feed is not None:
            told.extend(work.feed.write_new(rows))
        counts.append(rows.num_rows)
        yield rows
        _rest(work)


def _marked(work: RowWork, files: Sequence[Touched]) -> Iterable[Replaced]:
    """Delete rows in place."""
    found = [one.found_by(work) for one in files]
    after = mark(
        work.stager, [(one.file, pa.array(f.gone)) for one, f in zip(files, found, strict=True)]
    )
    for one, rows, new in zip(files, found, after, strict=True):
        deleted = len(rows.deleted)
        yield Replaced(one.file, (new,), one.gone - deleted, deleted)


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
