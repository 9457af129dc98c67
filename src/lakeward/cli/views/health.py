"""What the doctor found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.maintain.doctor import Finding, Mended, Report, Severity

_STYLES: Final = {
    Severity.ERROR: "bold red",
    Severity.WARNING: "bold yellow",
    Severity.INFO: "bold blue",
}


@dataclass(frozen=True, slots=True)
class HealthView(View):
    """A report, and what was mended before it."""

    lake: str
    report: Report
    mended: Mended | None = None

    def to_json(self) -> dict[str, Any]:
        """The findings, and whether the lake is healthy."""
        report = self.report
        return {
            "lake": self.lake,
            "healthy": report.healthy,
            "tables": report.tables,
            "versions": report.versions,
            "files": report.files,
            "seconds": round(report.seconds, 3),
            "findings": [asdict(f) for f in report.findings],
            "mended": None if self.mended is None else asdict(self.mended),
        }

    def to_text(self) -> Iterator[RenderableType]:
        """One paragraph to a finding, and a verdict."""
        if self.mended is not None:
            yield from _mended(self.mended)
        for finding in self.report.findings:
            yield _finding(finding)
        yield self._verdict()

    def _verdict(self) -> Text:
        report = self.report
        counts = (
            words.counted(report.tables, "table"),
            words.counted(report.versions, "version"),
            words.counted(report.files, "live file"),
        )
        looked = f" ({', '.join(counts)}, {report.seconds:.1f} s)"
        errors, warnings = len(report.of(Severity.ERROR)), len(report.of(Severity.WARNING))
        if errors:
            return Text.assemble((f"✗ {words.counted(errors, 'error')}", "bold red"), looked)
        if warnings:
            counted = words.counted(warnings, "warning")
            return Text.assemble(("✓ healthy", "bold green"), f", with {counted}", looked)
        return Text.assemble(("✓ healthy", "bold green"), looked)


def _finding(finding: Finding) -> Text:
    line = Text.assemble(
        (f"{finding.severity.value} ", _STYLES[finding.severity]),
        (f"[{finding.code}] ", "dim"),
        words.printable(finding.what),
    )
    if finding.mend:
        line.append(f"\n    → {words.printable(finding.mend)}", style="italic")
    return line


def _mended(mended: Mended) -> Iterator[RenderableType]:
    for name, count in mended.published.items():
        text = f"mended: {name}, {words.counted(count, 'version')} published again"
        yield Text(words.printable(text), style="green")
    for name in mended.entered:
        text = f"mended: {name} entered into the Iceberg catalog again"
        yield Text(words.printable(text), style="green")
    if mended.expired:
        text = f"mended: {words.counted(mended.expired, 'transaction')} of dead processes closed"
        yield Text(text, style="green")
