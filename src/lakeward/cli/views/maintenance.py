"""Plans and runs of maintenance as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType

from lakeward.cli.output import words
from lakeward.lake.records import JobRecord, Maintained, Plan


def maintained(result: Maintained) -> Iterator[RenderableType]:
    """Show the plan of a dry run, or the result of a run."""
    if result.job is None or not result.plan.units:
        yield from plan(result.plan)
        return
    for note in result.plan.notes:
        yield words.line(note, "dim")
    yield words.line(_sentence(result.job))


def plan(found: Plan) -> Iterator[RenderableType]:
    """Show what would be done, unit by unit, and what would be skipped."""
    if not found.units:
        yield words.line(f"{found.kind}: nothing to do.")
    else:
        columns = ["table", "what", "why", "gain", "reads", "writes"]
        rows = (
            (u.table, u.what, u.why, u.gain, _size(u.reads), _size(u.writes)) for u in found.units
        )
        yield words.grid(columns, rows, right=["reads", "writes"])
    for note in found.notes:
        yield words.line(note, "dim")


def jobs(found: Sequence[JobRecord]) -> Iterator[RenderableType]:
    """Show one line per run."""
    if not found:
        yield words.line("There is no such run of maintenance.")
        return
    columns = ["started", "kind", "table", "state", "units", "files", "freed", "written", "seconds"]
    yield words.grid(
        columns,
        (
            (
                f"{j.started:%Y-%m-%d %H:%M:%S}",
                j.kind,
                j.table or "–",
                j.state.value,
                f"{j.units_done}/{j.units}",
                words.number(j.done.files),
                words.size(j.done.frees),
                words.size(j.done.writes),
                f"{j.seconds:.1f}",
            )
            for j in found
        ),
        right=columns[4:],
    )


def _sentence(job: JobRecord) -> str:
    done = job.done
    parts = [words.counted(done.files, "file")]
    if done.frees:
        parts.append(f"{words.size(done.frees)} freed")
    if done.writes:
        parts.append(f"{words.size(done.writes)} written")
    more = "" if job.state.value == "done" else f" ({job.units_done} of {job.units} units)"
    return f"{job.kind} {job.state.value}{more}: {', '.join(parts)}, {job.seconds:.1f} s."


def _size(count: int) -> str:
    return words.size(count) if count else "–"
