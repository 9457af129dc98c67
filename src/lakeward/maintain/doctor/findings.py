"""The input of the checks of the doctor, a table, and their output, findings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import TableNotFound
from lakeward.log import heads, integrity
from lakeward.log.codec import loads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.records import in_json

RESTORE: Final = (
    "Restore a backup of the store, or rebuild it from the published logs with `lakeward rebuild`."
)


class Severity(StrEnum):
    """How bad it is.

    An error breaks a guarantee of the lake. A warning is a state that should be temporary.
    Information needs no action.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor found.

    Attributes:
        severity: How bad it is.
        code: What kind of thing, for programs.
        what: What is the matter, in one sentence.
        mend: What to do about it.
        table: Which table, unless it is the store itself.
        version: Which version, where it is about one.
    """

    severity: Severity
    code: str
    what: str
    mend: str | None = None
    table: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Mended:
    """What was mended.

    Attributes:
        published: Versions written again, by table, besides those that were still owed.
        expired: Transactions of dead processes that were closed.
        entered: Tables entered into the Iceberg catalog again.
    """

    published: dict[str, int]
    expired: int
    entered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an examination.

    Attributes:
        lake: The store that was examined.
        findings: Errors first, then by table.
        tables: How many tables were looked at.
        versions: How many versions.
        files: How many live files.
        seconds: How long it took.
        mended: What was mended before, where that was asked for.
    """

    lake: str
    findings: tuple[Finding, ...]
    tables: int
    versions: int
    files: int
    seconds: float
    mended: Mended | None = None

    @property
    @in_json
    def healthy(self) -> bool:
        """Whether there is no error."""
        return not self.of(Severity.ERROR)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(f for f in self.findings if f.severity is severity)


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A row of a definition, whose body is text."""

    definition_id: int
    from_version: int
    until_version: int
    body: str


@dataclass
class CheckedTable:
    """One table, checked while others may go on writing it.

    `name` is its name when the examination began; `versions` and `files` count what was checked;
    `on_progress` is called after each version and each file.
    """

    context: LakeContext
    table_id: int
    name: str
    format: str = "delta"
    versions: int = 0
    files: int = 0
    on_progress: Callable[[], None] = field(default=lambda: None)

    def head(self, session: Session) -> Head:
        """The table's head as this session sees it; `TableNotFound` if it was dropped."""
        found = heads.by_id(session, self.table_id)
        if found is None:
            what = f"The table {self.name} was dropped meanwhile."
            raise TableNotFound(what, table=self.name)
        return found

    def definition_rows(self, session: Session) -> list[DefinitionRow]:
        """All definitions, by id."""
        return [DefinitionRow(*row) for row in integrity.definition_rows(session, self.table_id)]

    def definitions(self, session: Session) -> Definitions:
        """All definitions, by version."""
        return Definitions(self.definition_rows(session))

    def error(
        self, code: str, what: str, mend: str | None = RESTORE, *, version: int | None = None
    ) -> Finding:
        """A finding that breaks a guarantee."""
        return Finding(Severity.ERROR, code, what, mend, self.name, version)

    def warning(
        self, code: str, what: str, mend: str | None, *, version: int | None = None
    ) -> Finding:
        """A finding that should be temporary."""
        return Finding(Severity.WARNING, code, what, mend, self.name, version)

    def info(self, code: str, what: str, mend: str | None = None) -> Finding:
        """A finding for information."""
        return Finding(Severity.INFO, code, what, mend, self.name)


class Definitions:
    """Finds the definition of a version; parses each definition once."""

    def __init__(self, rows: list[DefinitionRow]) -> None:
        self._rows = sorted(rows, key=lambda r: r.from_version)
        self._starts = [r.from_version for r in self._rows]
        self._read: dict[int, Definition] = {}

    def at(self, version: int) -> Definition:
        """The definition at a version; `LookupError` if there is none."""
        place = bisect_right(self._starts, version) - 1
        if place < 0:
            message = f"no definition holds at version {version}"
            raise LookupError(message)
        found = self._read.get(place)
        if found is None:
            found = self._read[place] = Definition.from_json(loads(self._rows[place].body))
        return found


Check = Callable[[CheckedTable], Iterator[Finding]]
