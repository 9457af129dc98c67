"""Chooses the tables that are relocated, and checks that their files are in the new place.

They are the tables of the lake, and dropped ones that can come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import FileMissing
from lakeward.log import commits, files, heads, retired, totals
from lakeward.log.database import Session
from lakeward.model import progress
from lakeward.model.commit import Head
from lakeward.model.file import is_full
from lakeward.storage.paths import Move

_EXAMPLES: Final = 3


def restorable(session: Session) -> list[Head]:
    """Return the heads of dropped tables that `undrop` can bring back."""
    return [
        head
        for head, _ in heads.dropped(session)
        if not retired.is_retired(session, head.table_id, head.version)
        and not heads.has_heir(session, head)
    ]


def is_left_out(context: LakeContext, head: Head, move: Move) -> bool:
    """Return whether a dropped table is not relocated.

    Others own the files of a table that was adopted. They may have deleted files after the drop.
    """
    with context.database.read() as session:
        first = commits.first_version(session, head.table_id)
        made = None if first is None else commits.one(session, head.table_id, first)
    if made is None or not made.info.adopted:
        return False
    return not _has_document(context, head, move) or any(_missing(context, head, move))


def check_files(context: LakeContext, known: list[Head], move: Move) -> None:
    """Raise `FileMissing` unless every file of every table's newest version exists."""
    missing = [place for head in known for place in _missing(context, head, move)]
    if missing:
        shown = ", ".join(missing[:_EXAMPLES])
        more = ", …" if len(missing) > _EXAMPLES else ""
        what = f"{len(missing)} files of the lake are not in {context.storage.root}: {shown}{more}."
        hint = "Copy all files to the new place first, also those of dropped tables. "
        hint += "Nothing was changed."
        raise FileMissing(what, hint=hint, path=missing[0])


def _missing(context: LakeContext, head: Head, move: Move) -> Iterator[str]:
    storage = context.storage
    outside = is_full(head.location)
    there = (
        {} if outside else {f.path: f.size for f in storage.listing(head.location, recursive=True)}
    )
    if not outside and head.published >= 0 and not there:
        yield storage.uri(head.location)
        return
    with context.database.read() as session:
        found = files.at(session, head.table_id, head.version)
        for file in progress.counted(found, totals.at(session, head.table_id, head.version).files):
            inside = move.inside(file.path) if is_full(file.path) else None
            if inside is not None and not _is_file(context, inside, file.size):
                yield storage.uri(inside)
            elif not is_full(file.path) and not outside:
                path = f"{head.location}/{file.path}"
                if there.get(path) != file.size:
                    yield storage.uri(path)


def _has_document(context: LakeContext, head: Head, move: Move) -> bool:
    place = None if head.pointer is None else move.inside(head.pointer)
    return place is None or context.storage.exists(place)


def _is_file(context: LakeContext, path: str, size: int) -> bool:
    try:
        return context.storage.size(path) == size
    except FileMissing:
        return False
