"""Counts rows by the log's statistics, and reads only files whose statistics do not suffice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import LoggedFile
from lakeward.storage.base import Storage

if TYPE_CHECKING:
    from lakeward.model.expressions.nodes import Expression


def count_rows(
    storage: Storage,
    head: Head,
    definition: Definition,
    condition: Expression | None,
    files: Sequence[LoggedFile],
) -> tuple[int, int]:
    """Return how many rows of files satisfy a condition, and how many files were read for it."""
    from lakeward.model.expressions.nodes import columns as columns_in
    from lakeward.read.plan import file_always_matches
    from lakeward.read.scan import read_files

    counted = 0
    unsure: list[LoggedFile] = []
    for file in files:
        rows = file.file.live_rows
        if rows is None or not (condition is None or file_always_matches(condition, file.file)):
            unsure.append(file)
        else:
            counted += rows
    if not unsure:
        return counted, 0
    used = set() if condition is None else columns_in(condition)
    schema = definition.schema
    column = next((f.name for f in schema.fields if f.id in used), schema.names[0])
    with read_files(storage, head, definition, unsure, columns=[column], where=condition) as reader:
        return counted + sum(batch.num_rows for batch in reader), len(unsure)
