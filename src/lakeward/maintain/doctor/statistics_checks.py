"""Checks of the statistics index and derived partition values against the files' statistics.

A read skips files by both, so a wrong one hides rows. The index and the files are summed up by
field, in any order, so that the check streams; only if the sums differ is a field compared file by
file. Each check yields a finding for every violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from lakeward.log import files, integrity
from lakeward.log.codec import file_of
from lakeward.log.database import Session
from lakeward.log.index_rows import index_rows, insert_rows
from lakeward.log.indexing import IndexedFields
from lakeward.maintain.doctor.findings import RESTORE, CheckedTable, Finding
from lakeward.model.definition import Definition
from lakeward.model.derived_values import agrees
from lakeward.model.file import LoggedFile

_MASK: Final = 2**64 - 1
_KEY: Final = 6
"""The number of values of a row of the index that are its key; they come first."""
_FIX: Final = "Run `lakeward doctor --fix`: the row is computed again from the log."


def statistics(table: CheckedTable) -> Iterator[Finding]:
    """Check that the index has a row for each indexed field of each file, and no others."""
    with table.context.database.read() as session:
        indexed = IndexedFields(table.definitions(session).all())
        expected = _sums(_expected(session, table, indexed))
        found = _sums(integrity.statistics_rows(session, table.table_id))
        for field_id in sorted(expected.keys() | found.keys()):
            if expected.get(field_id) != found.get(field_id):
                yield from _differences(session, table, indexed, field_id)


def _sums(rows: Iterator[Any]) -> dict[int, tuple[int, int]]:
    """Return by field the number of rows, and a sum of their hashes, the same in any order."""
    out: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        line = out[row[1]]
        line[0] += 1
        line[1] = (line[1] + hash(tuple(row))) & _MASK
    return {field_id: (count, total) for field_id, (count, total) in out.items()}


def _expected(
    session: Session, table: CheckedTable, indexed: IndexedFields
) -> Iterator[tuple[Any, ...]]:
    for row in integrity.file_rows(session, table.table_id):
        file = file_of(row)
        yield from index_rows(table.table_id, file, indexed.of(file.added, file.removed))


def _differences(
    session: Session, table: CheckedTable, indexed: IndexedFields, field_id: int
) -> Iterator[Finding]:
    expected = {row for row in _expected(session, table, indexed) if row[1] == field_id}
    found = {tuple(r) for r in integrity.statistics_rows(session, table.table_id, field_id)}
    for rows, problem, cure in (
        (expected - found, "lacks", _FIX),
        (found - expected, "has a wrong entry for", RESTORE),
    ):
        for version, ordinal in sorted({(row[4], row[5]) for row in rows}):
            what = (
                f"The statistics index of {table.name} {problem} field {field_id} of file "
                f"{ordinal} that version {version} added."
            )
            mend = f"Selective reads may miss its rows. {cure}"
            yield table.error("statistics", what, mend, version=version)


def insert_missing(session: Session, table: CheckedTable) -> int:
    """Insert the rows that the index lacks; return how many. Wrong rows stay as they are."""
    indexed = IndexedFields(table.definitions(session).all())
    found = {tuple(r)[:_KEY] for r in integrity.statistics_rows(session, table.table_id)}
    missing = [row for row in _expected(session, table, indexed) if row[:_KEY] not in found]
    insert_rows(session, missing)
    return len(missing)


def derived_partitions(table: CheckedTable) -> Iterator[Finding]:
    """Check that no live file has a derived partition value that its statistics rule out."""
    with table.context.database.read() as session:
        head, definitions = table.head(session), table.definitions(session)
        if not definitions.at(head.version).derived:
            return
        for file in files.at(session, table.table_id, head.version):
            yield from _wrong(table, file, definitions.at(file.added))


def _wrong(table: CheckedTable, file: LoggedFile, definition: Definition) -> Iterator[Finding]:
    for own_id, derived in definition.derived.items():
        if own_id not in file.partition or agrees(file.file, own_id, definition) is not False:
            continue
        source = definition.schema.by_id[derived.source].name
        term = derived.transform.of(source)
        what = (
            f"File {file.path!r} of {table.name} lies in a partition of {term} that the bounds of"
            f" {source} contradict, so that a condition on {source} may not find its rows."
        )
        column = f" without the column {derived.name}" if own_id > 0 else ""
        mend = (
            f"Write the rows again in a transaction without Spark: read the table without a"
            f" condition, and overwrite it with these rows{column}."
        )
        yield table.error("derived-partition", what, mend, version=file.added)
