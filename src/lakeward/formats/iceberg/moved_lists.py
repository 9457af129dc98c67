"""Rewrites the manifest lists of a moved table's versions that the log knows.

A document does not list all versions. Those that it does not list are restored from their manifest
lists, whose names are in the log. A listed version may be forgotten later, so the log gets the new
names of all lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import CorruptTable
from lakeward.formats.iceberg.document import METADATA_DIRECTORY
from lakeward.formats.iceberg.expiry import LIST, list_name
from lakeward.formats.iceberg.moved import MovedTables
from lakeward.formats.iceberg.summary import SNAPSHOT_ID
from lakeward.log import commits, relocation, retired
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.file import is_full

_ROWS: Final = 1_000


def moved_lists(
    context: LakeContext, head: Head, metadata: MovedTables, root: str
) -> Iterator[tuple[int, str]]:
    """Rewrite the manifest lists of readable versions; yield each version with the new name.

    `root` is the old root of the warehouse. A version whose metadata is damaged stays damaged.
    """
    if head.pointer is None or is_full(head.location):
        return
    directory = f"{head.location}/{METADATA_DIRECTORY}"
    there = {f.path.rpartition("/")[2] for f in context.storage.listing(directory)}
    with context.database.read() as session:
        over = retired.ranges(session, head.table_id)
    for found in _commits(context, head):
        number = (found.info.extra or {}).get(SNAPSHOT_ID)
        if number is None or any(low <= found.version < high for low, high in over):
            continue
        place = list_name(f"{root}/{head.location}", number, found.info)
        if place.rpartition("/")[2] in there:
            with suppress(CorruptTable):
                yield found.version, metadata.manifest_list(place).rpartition("/")[2]


def name_lists(session: Session, table_id: int, names: Mapping[int, str]) -> None:
    """Record the names of the manifest lists of versions."""
    last = max(names, default=-1)
    while last >= 0:
        page = commits.history(session, table_id, low=0, high=last, limit=_ROWS)
        rows = [
            (c.version, replace(c.info, extra={**(c.info.extra or {}), LIST: names[c.version]}))
            for c in page
            if c.version in names
        ]
        relocation.set_infos(session, table_id, rows)
        last = page[-1].version - 1 if page else -1


def _commits(context: LakeContext, head: Head) -> Iterator[commits.LoggedCommit]:
    last = head.version
    while last >= 0:
        with context.database.read() as session:
            page = commits.history(session, head.table_id, low=0, high=last, limit=_ROWS)
        yield from page
        last = page[-1].version - 1 if page else -1
