"""Whether the statistics index holds exactly what the files' own statistics say.

A plan trusts the index: a row that is missing there hides a file from readers. Both sides are
summed up by field without order, so the check streams; only where the sums differ is a field looked
at file by file.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from lakeward.log import files, integrity
from lakeward.log.codec import file_of
from lakeward.log.database import Session
from lakeward.maintain.doctor.patient import RESTORE, Definitions, Patient
from lakeward.maintain.doctor.report import Finding

_MASK: Final = 2**64 - 1


def statistics(table: Patient) -> Iterator[Finding]:
    """Every indexed field of every file has its row in the index, and there are no others."""
    with table.context.database.read() as session:
        definitions = table.definitions(session)
        meant = _sums(_meant(session, table, definitions))
        found = _sums(integrity.statistics_rows(session, table.table_id))
        for field_id in sorted(meant.keys() | found.keys()):
            if meant.get(field_id) != found.get(field_id):
                yield from _differences(session, table, definitions, field_id)


def _sums(rows: Iterator[Any]) -> dict[int, tuple[int, int]]:
    """How many rows each field has, and a sum that is the same for the same rows in any order."""
    out: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        line = out[row[1]]
        line[0] += 1
        line[1] = (line[1] + hash(tuple(row))) & _MASK
    return {field_id: (count, total) for field_id, (count, total) in out.items()}


def _meant(session: Session, table: Patient, definitions: Definitions) -> Iterator[tuple[Any, ...]]:
    for row in integrity.file_rows(session, table.table_id):
        file = file_of(row)
        indexed = definitions.at(file.added).indexed
        yield from files.stat_rows(table.table_id, file, indexed)


def _differences(
    session: Session, table: Patient, definitions: Definitions, field_id: int
) -> Iterator[Finding]:
    meant = {row for row in _meant(session, table, definitions) if row[1] == field_id}
    found = {tuple(r) for r in integrity.statistics_rows(session, table.table_id, field_id)}
    for rows, problem in ((meant - found, "lacks"), (found - meant, "has a wrong entry for")):
        for version, ordinal in sorted({(row[4], row[5]) for row in rows}):
            what = (
                f"The statistics index of {table.name} {problem} field {field_id} of file "
                f"{ordinal} that version {version} added."
            )
            mend = f"Selective reads may miss its rows. {RESTORE}"
            yield table.error("statistics", what, mend, version=version)
