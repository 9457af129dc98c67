"""Whether files lie in the partitions that the statistics of their rows say.

A read skips a file by a partition value that is derived from a column, so a wrong one hides rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from lakeward.log import files
from lakeward.maintain.doctor.patient import Patient
from lakeward.maintain.doctor.report import Finding
from lakeward.model.definition import Definition
from lakeward.model.derived_values import agrees
from lakeward.model.file import LoggedFile


def derived_partitions(table: Patient) -> Iterator[Finding]:
    """No live file has a derived partition value that its statistics rule out."""
    with table.context.database.read() as session:
        head, definitions = table.head(session), table.definitions(session)
        if not definitions.at(head.version).derived:
            return
        for file in files.at(session, table.table_id, head.version):
            yield from _wrong(table, file, definitions.at(file.added))


def _wrong(table: Patient, file: LoggedFile, definition: Definition) -> Iterator[Finding]:
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
