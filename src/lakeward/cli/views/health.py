"""The report of the doctor as text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.lake.records import Finding, Mended, Report, Severity

_STYLES: Final = {
    Severity.ERROR: "bold red",
    Severity.WARNING: f"bold {words.WARNING}",
    Severity.INFO: "bold",
}


def report(found: Report) -> Iterator[RenderableType]:
    """Show one paragraph per finding, and a verdict."""
    if found.mended is not None:
        yield from _mended(found.mended)
    for finding in found.findings:
        yield _finding(finding)
    yield _verdict(found)


def _verdict(found: Report) -> Text:
    counts = (
        words.counted(found.tables, "table"),
        words.counted(found.versions, "version"),
        words.counted(found.files, "live file"),
    )
    looked = f" ({', '.join(counts)}, {found.seconds:.1f} s)"
    errors, warnings = len(found.of(Severity.ERROR)), len(found.of(Severity.WARNING))
    if errors:
        return Text.assemble((f"✗ {words.counted(errors, 'error')}", "bold red"), looked)
    counted = f", with {words.counted(warnings, 'warning')}" if warnings else ""
    return Text.assemble(("✓ healthy", "bold green"), counted, looked)


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
    done = [
        f"{n}, {words.counted(c, 'version')} published again" for n, c in mended.published.items()
    ]
    done += [f"{name} entered into the Iceberg catalog again" for name in mended.entered]
    done += [
        f"{n}, {words.counted(c, 'row')} of the statistics index inserted"
        for n, c in mended.indexed.items()
    ]
    done += [f"{name} got a checkpoint in place of lost commits" for name in mended.checkpoints]
    if mended.expired:
        done.append(f"{words.counted(mended.expired, 'transaction')} of dead processes closed")
    for what in done:
        yield words.line(f"mended: {what}", "green")
