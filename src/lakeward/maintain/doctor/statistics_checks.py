"""Whether the statistics index and derived partition values fit the statistics of the files.

A read skips files by both, so a wrong one hides rows. The index and the files are summed up by
field, in any order, so that the check streams; only where the sums differ is a field compared file
by file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from lakeward.log import files, integrity
from lakeward.log.codec import file_of
from lakeward.log.database import Session
from lakeward.maintain.doctor.findings import RESTORE, CheckedTable, Definitions, Finding
from lakeward.model.definition import Definition
from lakeward.model.derived_values import agrees
from lakeward.model.file import LoggedFile

_MASK: Final = 2**64 - 1


def statistics(table: CheckedTable) -> Iterator[Finding]:
    """Every indexed field of every file has its row in the index, and there are no others."""
    with table.context.database.read() as session:
        definitions = table.definitions(session)
        expected = _sums(_expected(session, table, definitions))
        found = _sums(integrity.statistics_rows(session, table.table_id))
        for field_id in sorted(expected.keys() | found.keys()):
            if expected.get(field_id) != found.get(field_id):
                yield from _differences(session, table, definitions, field_id)


def _sums(rows: Iterator[Any]) -> dict[int, tuple[int, int]]:
    """How many rows each field has, and a sum that is the same for the same rows in any order."""
    out: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        line = out[row[1]]
        line[0] += 1
        line[1] = (line[1] + hash(tuple(row))) & _MASK
    return {field_id: (count, total) for field_id, (count, total) in out.items()}


def _expected(
    session: Session, table: CheckedTable, definitions: Definitions
) -> Iterator[tuple[Any, ...]]:
    for row in integrity.file_rows(session, table.table_id):
        file = file_of(row)
        indexed = definitions.at(file.added).indexed
        yield from files.stat_rows(table.table_id, file, indexed)


def _differences(
    session: Session, table: CheckedTable, definitions: Definitions, field_id: int
) -> Iterator[Finding]:
    expected = {row for row in _expected(session, table, definitions) if row[1] == field_id}
    found = {tuple(r) for r in integrity.statistics_rows(session, table.table_id, field_id)}
    for rows, problem in ((expected - found, "lacks"), (found - expected, "has a wrong entry for")):
        for version, ordinal in sorted({(row[4], row[5]) for row in rows}):
            what = (
                f"The statistics index of {table.name} {problem} field {field_id} of file "
                f"{ordinal} that version {version} added."
            )
            mend = f"Selective reads may miss its rows. {RESTORE}"
            yield table.error("statistics", what, mend, version=version)


def derived_partitions(table: CheckedTable) -> Iterator[Finding]:
    """No live file has a derived partition value that its statistics rule out."""
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
