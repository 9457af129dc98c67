"""The input of the doctor's checks: a table. Their output: findings."""

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
    """How severe a finding is.

    An error breaks a guarantee of the lake. A warning is a state that should be temporary.
    Information needs no action.
    """

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of the doctor.

    Attributes:
        severity: How severe it is.
        code: The kind of finding, for programs.
        what: What is wrong, in one sentence.
        mend: What to do about it.
        table: The table; None if the finding is about the store itself.
        version: The version, if the finding is about one.
    """

    severity: Severity
    code: str
    what: str
    mend: str | None = None
    table: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Mended:
    """What was repaired.

    Attributes:
        published: The number of versions published again, by table.
        expired: The number of transactions of dead processes that were ended.
        entered: Tables that were inserted into the Iceberg catalog again.
        indexed: The number of rows inserted into the statistics index, by table.
        checkpoints: Tables that got a checkpoint, which replaces commits that are lost.
    """

    published: dict[str, int]
    expired: int
    entered: tuple[str, ...] = ()
    indexed: dict[str, int] = field(default_factory=dict)
    checkpoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of an examination.

    Attributes:
        lake: The store that was examined.
        findings: The findings: errors first, then by table.
        tables: The number of tables examined.
        versions: The number of versions examined.
        files: The number of live files examined.
        seconds: How long the examination took.
        mended: What was repaired before the examination, if requested.
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
        """Return the findings of one severity."""
        return tuple(f for f in self.findings if f.severity is severity)


@dataclass(frozen=True, slots=True)
class DefinitionRow:
    """A row of a definition; `body` is JSON text."""

    definition_id: int
    from_version: int
    until_version: int
    body: str


@dataclass
class CheckedTable:
    """One table, checked while others may keep writing to it.

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
        """Return the table's head in this session; raise `TableNotFound` if it was dropped."""
        found = heads.by_id(session, self.table_id)
        if found is None:
            what = f"The table {self.name} was dropped meanwhile."
            raise TableNotFound(what, table=self.name)
        return found

    def definition_rows(self, session: Session) -> list[DefinitionRow]:
        """Return the rows of all definitions, ordered by id."""
        return [DefinitionRow(*row) for row in integrity.definition_rows(session, self.table_id)]

    def definitions(self, session: Session) -> Definitions:
        """Return all definitions, to be looked up by version."""
        return Definitions(self.definition_rows(session))

    def error(
        self, code: str, what: str, mend: str | None = RESTORE, *, version: int | None = None
    ) -> Finding:
        """Return a finding that breaks a guarantee."""
        return Finding(Severity.ERROR, code, what, mend, self.name, version)

    def warning(
        self, code: str, what: str, mend: str | None, *, version: int | None = None
    ) -> Finding:
        """Return a finding about a state that should be temporary."""
        return Finding(Severity.WARNING, code, what, mend, self.name, version)

    def info(self, code: str, what: str, mend: str | None = None) -> Finding:
        """Return a finding that needs no action."""
        return Finding(Severity.INFO, code, what, mend, self.name)


class Definitions:
    """Looks up the definition of a version; parses each definition once."""

    def __init__(self, rows: list[DefinitionRow]) -> None:
        self._rows = sorted(rows, key=lambda r: r.from_version)
        self._starts = [r.from_version for r in self._rows]
        self._read: dict[int, Definition] = {}

    def at(self, version: int) -> Definition:
        """Return the definition at a version; raise `LookupError` if there is none."""
        place = bisect_right(self._starts, version) - 1
        if place < 0:
            message = f"no definition holds at version {version}"
            raise LookupError(message)
        found = self._read.get(place)
        if found is None:
            found = self._read[place] = Definition.from_json(loads(self._rows[place].body))
        return found

    def all(self) -> Iterator[tuple[int, Definition]]:
        """Yield every definition with its first version, oldest first."""
        return ((start, self.at(start)) for start in self._starts)


Check = Callable[[CheckedTable], Iterator[Finding]]
