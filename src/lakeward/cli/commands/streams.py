"""`ingest`: writes rows from files, standard input or a topic into a table."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.arguments import complete_table
from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake
    from lakeward.stream.source import Source


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app, rich_help_panel="Tables")(ingest)


def ingest(
    cli: Cli,
    source: Annotated[
        list[str],
        typer.Option(
            "--from",
            metavar="FILE|s3://BUCKET/FILE|-|kafka://HOST:PORT/TOPIC",
            help="Files or patterns of Parquet, CSV, JSON lines or Arrow, standard input, or a "
            "topic. Repeat it for several files.",
        ),
    ],
    into: Annotated[
        str,
        typer.Option("--into", metavar="TABLE", help="The table.", autocompletion=complete_table),
    ],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="parquet|csv|json|arrow",
            help="By the files' names unless given; standard input is json or arrow.",
        ),
    ] = None,
    writer: Annotated[
        str,
        typer.Option("--writer", metavar="ID", help="Counts epochs and remembers positions."),
    ] = "lakeward-ingest",
    mode: Annotated[
        str, typer.Option("--mode", metavar="append|upsert|overwrite", help="What rows do.")
    ] = "append",
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="COLUMN", help="For upsert. Repeat it for several."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="COLUMNS", help="Make the table by it: `id int64, amount double`."
        ),
    ] = None,
    table_format: Annotated[
        str | None,
        typer.Option("--table-format", metavar="delta|iceberg", help="When it is made."),
    ] = None,
    partition_by: Annotated[
        list[str] | None,
        typer.Option("--partition-by", metavar="COLUMN", help="When it is made."),
    ] = None,
    epoch_rows: Annotated[
        int, typer.Option("--epoch-rows", min=1, metavar="N", help="Commit when so many have come.")
    ] = 100_000,
    epoch_seconds: Annotated[
        float,
        typer.Option("--epoch-seconds", min=0, metavar="S", help="Or when so much time passed."),
    ] = 10.0,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Standard input is what it was the last time; go on in it."),
    ] = False,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more messages of a topic.")
    ] = False,
) -> None:
    """Write rows from files, standard input or a topic into a table, each exactly once.

    Positions in the source are committed with the rows. Run it again, and it continues after them.
    """
    from lakeward.cli.output import words
    from lakeward.model.records import to_json

    _check(source, format_, replay=replay, follow=follow)
    with cli.lake() as lake, ExitStack() as stack:
        found = _source(source, format_, lake, replay=replay, follow=follow)
        sink = stack.enter_context(
            lake.sink(
                into,
                writer_id=writer,
                mode=mode,
                key=key or None,
                schema=schema,
                format=table_format,
                partition_by=partition_by or (),
            )
        )
        advance = stack.enter_context(cli.output.working(f"Taking rows into {into}"))
        from lakeward.cli.output.counted import Counted

        counted = Counted(found, advance)
        done = sink.consume(counted, epoch_rows=epoch_rows, epoch_seconds=epoch_seconds)
        version = lake.table(into).version
    rows, epochs = words.counted(done.rows, "row"), words.counted(done.epochs, "epoch")
    told = f"{rows} in {epochs} into {into}, which is at version {version}."
    if not done.rows:
        told += " No row is new: each is taken once."
    cli.say(
        told,
        {"table": into, "version": version, "writer": writer, **to_json(done)},
    )


def _check(given: list[str], format_: str | None, *, replay: bool, follow: bool) -> None:
    """Raise `InvalidInput` for options that exclude each other, before the lake is opened."""
    from lakeward.errors import InvalidInput

    if format_ not in (None, "parquet", "csv", "json", "arrow"):
        what = f"{format_!r} is not a format of rows."
        raise InvalidInput(what, hint="Use parquet, csv, json or arrow.")
    alone = [s for s in given if s == "-" or s.startswith("kafka://")]
    if alone and len(given) > 1:
        what = f"{alone[0]} cannot be read together with others."
        raise InvalidInput(what, hint="Run the command once for each.")
    if follow and not given[0].startswith("kafka://"):
        what = "Only topics have more to wait for."
        raise InvalidInput(what, hint="Leave --follow out.")
    if replay and given != ["-"]:
        what = "Only standard input is replayed; files and topics are known by their positions."
        raise InvalidInput(what, hint="Leave --replay out.")
    if given == ["-"] and format_ in ("parquet", "csv"):
        what = f"Standard input is read as json or arrow, not as {format_}."
        raise InvalidInput(what, hint="Write it to a file, and give that to --from.")


def _source(
    given: list[str], format_: str | None, lake: Lake, *, replay: bool, follow: bool
) -> Source:
    from lakeward.stream.files import files_source
    from lakeward.stream.ipc import ArrowStream
    from lakeward.stream.lines import JsonStream

    if given[0].startswith("kafka://"):
        return _topic(given[0], format_, follow=follow)
    if given == ["-"]:
        stream = sys.stdin.buffer
        arrow = format_ == "arrow"
        return ArrowStream(stream, replay=replay) if arrow else JsonStream(stream, replay=replay)
    return files_source(given, format_, lake)


def _topic(address: str, format_: str | None, *, follow: bool) -> Source:
    from lakeward.errors import InvalidInput

    scheme, _, rest = address.partition("://")
    servers, _, topic = rest.partition("/")
    if scheme != "kafka" or not servers or not topic:
        what = f"{address!r} is neither a file nor a topic."
        raise InvalidInput(what, hint="Write a topic as kafka://host:9092/events.")
    if format_ == "arrow":
        what = "Messages of topics are JSON."
        raise InvalidInput(what, hint="Leave --format out.")
    from lakeward.integrations.kafka import KafkaSource

    return KafkaSource(servers, [topic], follow=follow)
