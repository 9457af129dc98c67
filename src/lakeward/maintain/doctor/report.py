"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is.

    An error breaks a promise of the lake. A warning is something that is meant to pass and has not
    yet. Information is worth knowing and nothing to worry about.
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
class Report:
    """The outcome of an examination.

    Attributes:
        findings: Errors first, then by table.
        tables: How many tables were looked at.
        versions: How many versions.
        files: How many live files.
        seconds: How long it took.
    """

    findings: tuple[Finding, ...]
    tables: int
    versions: int
    files: int
    seconds: float

    @property
    def healthy(self) -> bool:
        """Whether no promise of the lake is broken."""
        return not self.of(Severity.ERROR)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """The findings of one severity."""
        return tuple(f for f in self.findings if f.severity is severity)
