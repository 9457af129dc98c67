"""Reads the first rows of a version without a plan of all its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from lakeward.log import files

if TYPE_CHECKING:
    from lakeward.log.database import Session
    from lakeward.model.file import LoggedFile
    from lakeward.read.dataset import Version

_FIRST_FILES: Final = 10


def rows_in_order(
    snapshot: Version,
    read: Callable[[list[LoggedFile]], pa.RecordBatchReader],
    check: Callable[[Session], None],
) -> pa.RecordBatchReader:
    """Return the rows of a version; files are looked up when their rows are read.

    Args:
        snapshot: The table at the version.
        read: Returns the rows of some files.
        check: Raises an error if the files of the version may have been deleted.
    """
    readers = map(read, _parts(snapshot, check))
    first = next(readers)
    batches = (batch for reader in chain([first], readers) for batch in reader)
    return pa.RecordBatchReader.from_batches(first.schema, batches)


def _parts(snapshot: Version, check: Callable[[Session], None]) -> Iterator[list[LoggedFile]]:
    """Yield the files, oldest first, in lists that become longer; at least one list."""
    last, most = None, _FIRST_FILES
    while True:
        with snapshot.context.database.read() as session:
            table_id = snapshot.log_head.table_id
            part = files.next_at(session, table_id, snapshot.version, last, most)
            check(session)
        yield part
        if len(part) < most:
            return
        last, most = part[-1], most * 10
