"""Commands for pipelines: `run`, `runs`, `runs show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command, group

if TYPE_CHECKING:
    from lakeward.cli.output.base import Advance, Output
    from lakeward.pipeline import StepResult


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Pipelines")(run)
    several = typer.Typer()
    group(several)(runs)
    command(several, "show")(show)
    app.add_typer(several, name="runs", rich_help_panel="Pipelines")


def run(
    cli: Cli,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file with a pipeline.")],
    landing: Annotated[
        str | None,
        typer.Option(
            "--landing",
            metavar="DIR|URL",
            help="Where landing directories are; this directory unless given.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", metavar="NAME", help="Which, where the file has several."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option("--master", metavar="URL", help="Spark's master; this machine unless given."),
    ] = None,
    run_id: Annotated[
        str | None,
        typer.Option(
            "--run-id",
            metavar="ID",
            help="The run's id: one that was committed before is not run again.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what is new and which steps would run.")
    ] = False,
) -> None:
    """Run a pipeline: process new input, in one transaction over all its tables.

    Each input is processed exactly once, even after crashes and repeated runs. Without new input,
    nothing is committed.
    """
    from lakeward.cli.views import pipelines as text
    from lakeward.pipeline import RunResult
    from lakeward.pipeline.pipeline import load

    found = load(file, pipeline)
    with cli.lake() as lake:
        before = None if run_id is None or dry_run else found.committed(lake, run_id)
        if before is not None:
            cli.answer(before, text.result(before))
            return
        with cli.output.working("Looking for new input"):
            planned = found.plan(lake, landing=landing)
        if dry_run:
            cli.answer(planned, text.plan(planned))
            return
        if not planned.has_news:
            # Spark takes seconds to start, and there is nothing for it to do.
            result = RunResult(found.name, None, notices=planned.notices)
            cli.answer(result, text.result(result))
            return
        from lakeward.spark import session

        with cli.output.working("Starting Spark"):
            spark = session(lake, master=master)
        try:
            with cli.output.working(f"Running {found.name}") as advance:
                observer = _StepPrinter(cli.output, advance)
                result = found.run(lake, spark, landing=landing, observe=observer, run_id=run_id)
        finally:
            spark.stop()
        cli.answer(result, text.result(result))


def runs(
    cli: Cli,
    pipeline: Annotated[
        str | None, typer.Option("--pipeline", metavar="NAME", help="Only of this pipeline.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many runs.")] = 20,
) -> None:
    """List the newest runs of pipelines, including failed ones."""
    from lakeward.cli.views import pipelines as text

    with cli.lake() as lake:
        found = lake.runs(pipeline=pipeline, limit=limit)
    cli.answer({"runs": found}, text.runs(found))


def show(cli: Cli, run: Annotated[str, typer.Argument(metavar="ID", help="A run's id.")]) -> None:
    """Show a run's bundle: inputs, versions in and out, steps, violations, engines."""
    from lakeward.cli.views import pipelines as text

    with cli.lake() as lake:
        found = lake.run_record(run)
    cli.answer(found.bundle, text.run(found))


class _StepPrinter:
    """Prints each step as it begins and ends, and counts the steps."""

    def __init__(self, output: Output, advance: Advance) -> None:
        self._output = output
        self._advance = advance
        self._steps = (0, 0)

    def begins(self, table: str, number: int, of: int) -> None:
        self._output.note(f"{number}/{of}  {table} …")
        self._steps = (number, of)
        self._advance(number - 1, of)

    def ends(self, result: StepResult) -> None:
        self._advance(*self._steps)
        dropped = sum(result.dropped.values())
        left_out = f", {dropped:,} left out" if dropped else ""
        self._output.note(f"     {result.rows:,} rows{left_out} in {result.seconds:.1f} s")
