"""A table under examination: what the checks ask of it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import TableNotFound
from lakeward.log import heads, integrity
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.maintain.doctor.report import Finding, Severity
from lakeward.model.commit import Head
from lakeward.model.definition import Definition

RESTORE: Final = (
    "Restore a backup of the store, or rebuild it from the published logs with `lakeward rebuild`."
)


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A definition as the store has it, still as text."""

    definition_id: int
    from_version: int
    until_version: int
    body: str


@dataclass
class Patient:
    """One table, looked at while others may go on writing it.

    Attributes:
        context: The lake's.
        table_id: The table, whatever it is called.
        name: Its name when the examination began.
        format: `delta` or `iceberg`.
        versions: How many versions were looked at so far.
        files: How many live files were looked at so far.
        on_progress: Called after each version and each file.
    """

    context: LakeContext
    table_id: int
    name: str
    format: str = "delta"
    versions: int = 0
    files: int = 0
    on_progress: Callable[[], None] = field(default=lambda: None)

    def head(self, session: Session) -> Head:
        """The table's head as this session sees it.

        Raises:
            TableNotFound: It was dropped meanwhile.
        """
        found = heads.by_id(session, self.table_id)
        if found is None:
            what = f"The table {self.name} was dropped meanwhile."
            raise TableNotFound(what, table=self.name)
        return found

    def definition_rows(self, session: Session) -> list[DefinitionRow]:
        """All definitions, by id."""
        return [DefinitionRow(*row) for row in integrity.definition_rows(session, self.table_id)]

    def definitions(self, session: Session) -> Definitions:
        """All definitions, to be asked by version."""
        return Definitions(self.definition_rows(session))

    def error(
        self, code: str, what: str, mend: str | None = RESTORE, *, version: int | None = None
    ) -> Finding:
        """A broken promise."""
        return Finding(Severity.ERROR, code, what, mend, self.name, version)

    def warning(
        self, code: str, what: str, mend: str | None, *, version: int | None = None
    ) -> Finding:
        """Something that should have passed."""
        return Finding(Severity.WARNING, code, what, mend, self.name, version)

    def info(self, code: str, what: str, mend: str | None = None) -> Finding:
        """Something worth knowing."""
        return Finding(Severity.INFO, code, what, mend, self.name)


class Definitions:
    """The definition that holds at a version, each read from its text once."""

    def __init__(self, rows: list[DefinitionRow]) -> None:
        self._rows = sorted(rows, key=lambda r: r.from_version)
        self._starts = [r.from_version for r in self._rows]
        self._read: dict[int, Definition] = {}

    def at(self, version: int) -> Definition:
        """The definition at a version.

        Raises:
            LookupError: None holds there.
        """
        place = bisect_right(self._starts, version) - 1
        if place < 0:
            message = f"no definition holds at version {version}"
            raise LookupError(message)
        found = self._read.get(place)
        if found is None:
            found = self._read[place] = Definition.from_json(loads(self._rows[place].body))
        return found


Check = Callable[[Patient], Iterator[Finding]]
