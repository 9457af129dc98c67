"""The health of tables, and rounds of maintenance, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType

from lakeward.cli.output import words
from lakeward.lake.records import Health, Maintained, MaintenanceRun, PartitionHealth

_PARTITIONS: Final = 5


def health(found: Sequence[Health]) -> Iterator[RenderableType]:
    """Show every table with its score, the reasons and its worst partitions."""
    if not found:
        yield words.line("The lake has no tables.")
    for one in found:
        files = f"{words.counted(one.files, 'file')}, {words.size(one.bytes)}"
        yield words.line(f"{one.table}: {one.score} of 100 ({files})")
        if one.reasons:
            rows = ((f"-{r.points}", r.what, r.partition or "", r.command) for r in one.reasons)
            yield words.grid(["points", "why", "worst in", "mend with"], rows, right=["points"])
        bad = [p for p in one.partitions if p.partition and (p.small_files or p.deleted_rows)]
        if bad:
            yield _partitions(bad)


def maintenance(run: MaintenanceRun) -> Iterator[RenderableType]:
    """Show what was done, chore by chore, and what remains."""
    if run.state == "closed":
        yield words.line(f"The window is closed. It opens at {run.opens}.")
        return
    if run.done:
        rows = (
            (d.chore.table, d.chore.kind, d.result.state, d.chore.why, _gained(d.result))
            for d in run.done
        )
        yield words.grid(["table", "what", "state", "why", "gained"], rows)
    elif not run.left and not run.failed:
        yield words.line("Nothing is worth doing.")
    for failure in run.failed:
        what = f"{failure.chore.kind} of {failure.chore.table} failed: {failure.error}"
        yield words.line(what)
    if run.left:
        yield words.line(f"{words.counted(len(run.left), 'chore')} left: run it again.")


def _gained(result: Maintained) -> str:
    if result.job is None:
        return "; ".join(unit.gain for unit in result.plan.units[:2])
    done = result.job.done
    parts = [words.counted(done.files, "file")] if done.files else []
    after = done.facts.get("files_after")
    if after is not None and done.files:
        parts = [f"{words.counted(done.files, 'file')} became {after}"]
    if done.frees:
        parts.append(f"{words.size(done.frees)} freed")
    return ", ".join(parts)


def _partitions(bad: Sequence[PartitionHealth]) -> RenderableType:
    columns = ["partition", "files", "small", "bytes", "deleted rows"]
    rows = (
        (
            p.partition,
            words.number(p.files),
            words.number(p.small_files),
            words.size(p.bytes),
            words.number(p.deleted_rows),
        )
        for p in bad[:_PARTITIONS]
    )
    return words.grid(columns, rows, right=columns[1:])
