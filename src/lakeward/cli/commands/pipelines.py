"""Commands for pipelines: `run`, `runs`, `runs show`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command, group

if TYPE_CHECKING:
    from lakeward.cli.output.base import Output
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what is new and which steps would run.")
    ] = False,
) -> None:
    """Run a pipeline: take in what is new, in one transaction over all its tables.

    Each input has its effect once, whatever dies and however often this is run. With nothing new,
    nothing is committed.
    """
    from lakeward.cli.views import pipelines as text
    from lakeward.pipeline import RunResult
    from lakeward.pipeline.pipeline import load

    found = load(file, pipeline)
    with cli.lake() as lake:
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

        spark = session(lake, master=master)
        try:
            observer = _StepPrinter(cli.output)
            result = found.run(lake, spark, landing=landing, observe=observer)
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
    """List the newest runs of pipelines, failed ones too."""
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
    """Prints each step as it begins and ends."""

    def __init__(self, output: Output) -> None:
        self._output = output

    def begins(self, table: str, number: int, of: int) -> None:
        self._output.note(f"{number}/{of}  {table} …")

    def ends(self, result: StepResult) -> None:
        dropped = sum(result.dropped.values())
        left_out = f", {dropped:,} left out" if dropped else ""
        self._output.note(f"     {result.rows:,} rows{left_out} in {result.seconds:.1f} s")
