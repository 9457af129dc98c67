"""Merge-on-read: rows are deleted by a deletion vector, and their file is not rewritten.

A policy of the table enables it, and it is used if few rows of a file are deleted; otherwise the
file is rewritten, because every reader would have to skip the rows. One operation writes one file
of vectors. The log removes the data file and adds it again, under the same path and with the
vector, so concurrent changes of the file conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeward.formats.delta import bitmap
from lakeward.formats.delta.vectors import file_name, new_name
from lakeward.formats.policy import settings
from lakeward.formats.properties import MERGE_ON_READ, vector_fraction
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile, deleted_rows
from lakeward.model.steps import reach
from lakeward.write.stage.stager import Stager

_FEATURE: Final = "deletionVectors"


def is_marked_by(head: Head, definition: Definition, file: LoggedFile, gone: int) -> bool:
    """Return whether to delete `gone` rows of a file by a vector: if enabled, and they are few."""
    rows = file.rows
    said = settings(head, definition)
    if rows is None or not is_merge_on_read(said, definition):
        return False
    all_gone = gone + (deleted_rows(file.file.deletion_vector) or 0)
    return all_gone < rows and all_gone <= rows * vector_fraction(said)


def mark(stager: Stager, gone: Sequence[tuple[LoggedFile, pa.Array]]) -> list[DataFile]:
    """Delete rows of files in place, by one file of vectors; return the new entries, in order.

    `gone` has files for which `is_marked_by` is true, with the positions of the rows to delete.
    """
    if not gone:
        return []
    # Few transactions reach this point, and the others need not load the library.
    from lakeward.read.deleted import Vectors

    earlier = Vectors(stager.storage, stager.head)
    name = new_name(stager.transaction_id)
    found = [earlier.of(file) | bitmap.bitmap(positions) for file, positions in gone]
    data, descriptors = bitmap.vector_bytes(name, found)
    stager.create(file_name(name), data)
    reach("rows.marked")
    return [_marked(file.file, vector) for (file, _), vector in zip(gone, descriptors, strict=True)]


def is_merge_on_read(said: Mapping[str, str], definition: Definition) -> bool:
    """Return whether deletion vectors are enabled for the table."""
    features = definition.protocol.get("writerFeatures") or ()
    return said.get(MERGE_ON_READ) == "true" and _FEATURE in features


def _marked(file: DataFile, vector: Mapping[str, object]) -> DataFile:
    # Bounds are those of all rows in the file, so they may be wider than those of the rest.
    stats = None if file.stats is None else replace(file.stats, tight=False)
    return replace(file, deletion_vector=dict(vector), stats=stats)
