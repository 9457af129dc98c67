"""The tables in a warehouse, found by their published metadata, without the store."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.newest import Candidates
from lakeward.storage.base import Storage


def published_tables(storage: Storage, *, known: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the name of the metadata directory, and the directory, of each published table.

    Directories below a table are not searched, nor those that are `known`.
    """
    stack = [""]
    while stack:
        directory = stack.pop()
        if directory in known:
            continue
        below = storage.directories(directory)
        kinds = [
            log
            for log in (LOG_DIRECTORY, METADATA_DIRECTORY)
            if directory and f"{directory}/{log}" in below
        ]
        if METADATA_DIRECTORY in kinds and not Candidates.at(storage, directory).names:
            kinds.remove(METADATA_DIRECTORY)
        yield from ((log, directory) for log in kinds)
        if not kinds:
            stack.extend(below)
