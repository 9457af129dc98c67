"""Which fields of each file the statistics index has.

A file is indexed by the fields that its table indexed when the file was added. A column may be
dropped and come back later, by a restore, an undo, or a commit of another engine. Files that were
added in between contain its values but have no rows for it, and no row would mean that every value
is missing. So the commit that brings the column back inserts these rows. A file that is older than
the column has no values of it, and needs no row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from lakeward.log import definitions, files
from lakeward.log.database import Session
from lakeward.log.index_rows import index_rows, insert_rows
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.model.types import Field


class IndexedFields:
    """Returns the indexed fields of files, by the definitions of the versions that have them."""

    def __init__(self, found: Iterable[tuple[int, Definition]]) -> None:
        """Take definitions, each with its first version, oldest first, without gaps."""
        listed = list(found)
        self._starts = [version for version, _ in listed]
        self._definitions = [definition for _, definition in listed]
        self._returned = [
            (version, fields)
            for (_, before), (version, after) in pairwise(listed)
            if (fields := returned_fields(before, after))
        ]
        self._known: dict[tuple[int, int], tuple[Field, ...]] = {}

    def of(self, added: int, removed: int) -> tuple[Field, ...]:
        """Return the indexed fields of a file, by the versions that added and removed it.

        Raises `LookupError` if there is no definition of the first of them.
        """
        place = bisect_right(self._starts, added) - 1
        if place < 0:
            message = f"no definition holds at version {added}"
            raise LookupError(message)
        own = self._definitions[place]
        later = [fields for version, fields in self._returned if added < version < removed]
        if not later:
            return own.indexed
        key = place, len(later)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = _united(own, later)
        return found


def returned_fields(before: Definition, after: Definition) -> tuple[Field, ...]:
    """Return indexed fields of a definition that the one before did not index, but may have had.

    Its columns may be in older files. Hidden partition values count as well.
    """
    known, last = {f.id for f in before.indexed}, before.schema.last_id
    return tuple(f for f in after.indexed if f.id <= last and f.id not in known)


def index_again(session: Session, table_id: int, version: int) -> None:
    """Insert the rows of fields that come back with a version, for files that are older."""
    indexed = IndexedFields((since, d) for since, _, d in definitions.of_table(session, table_id))

    def missing() -> Iterator[tuple[Any, ...]]:
        for file in files.at(session, table_id, version):
            if file.added < version:
                had = {f.id for f in indexed.of(file.added, version)}
                fields = indexed.of(file.added, version + 1)
                yield from index_rows(table_id, file, [f for f in fields if f.id not in had])

    insert_rows(session, list(missing()))


def indexed_of(
    session: Session, table_id: int, found: Sequence[LoggedFile]
) -> list[tuple[Field, ...]]:
    """Return the indexed fields of each of some files of a table."""
    first, last = min(f.added for f in found), max(f.removed for f in found)
    held = definitions.between(session, table_id, first, last)
    indexed = IndexedFields((since, definition) for since, _, definition in held)
    return [indexed.of(f.added, f.removed) for f in found]


def _united(own: Definition, later: Iterable[Iterable[Field]]) -> tuple[Field, ...]:
    """Return the indexed fields of a definition, and returned ones that its columns may have."""
    found = {f.id: f for f in own.indexed}
    for fields in later:
        found.update({f.id: f for f in fields if f.id <= own.schema.last_id and f.id not in found})
    return tuple(found.values())
