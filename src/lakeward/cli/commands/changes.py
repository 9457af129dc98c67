"""Commands that change a table, and show who changed it: `delete`, `drop`, `rename`, `audit`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.arguments import ParamOption, TableArgument
from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.lake.records import AuditRecord

YesOption = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Tables")(delete)
    command(app, rich_help_panel="Tables")(drop)
    command(app, rich_help_panel="Tables")(rename)
    command(app, rich_help_panel="History")(audit)


def delete(
    cli: Cli,
    table: TableArgument,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Rows for which this is true.")
    ],
    param: ParamOption = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Why; kept with the commit.")
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete rows, in one transaction. Older versions still have them."""
    from lakeward.cli.output import words
    from lakeward.model.parameter_values import of_texts

    params = of_texts(param)
    with cli.lake() as lake:
        with cli.output.working("Counting rows"):
            rows = lake.table(table).at().count(where, params=params)
        if not rows:
            facts = {"table": table, "deleted": 0, "version": None, "transaction_id": None}
            cli.say(f"No row of {table} is one of these. Nothing was changed.", facts)
            return
        cli.confirm(f"Delete {words.counted(rows, 'row')} of {table}?", yes=yes)
        with cli.output.working("Deleting"), lake.transaction(message=message) as tx:
            done = tx.delete(table, where=where, params=params)
        result = tx.commit()
    version = result.versions[table]
    count = rows if done.deleted is None else done.deleted
    cli.say(
        f"Deleted {words.counted(count, 'row')} of {table}, which is at version {version}.",
        {
            "table": table,
            "deleted": done.deleted,
            "version": version,
            "transaction_id": result.transaction_id,
        },
    )


def drop(cli: Cli, table: TableArgument, yes: YesOption = False) -> None:
    """Drop a table. Its files stay until they are vacuumed."""
    with cli.lake() as lake:
        found = lake.table(table)
        facts = {"table": found.name, "version": found.version, "location": found.location}
        cli.confirm(f"Drop {table}, which is at version {facts['version']}?", yes=yes)
        lake.drop(table)
    cli.say(f"Table {table} is dropped. Its files stay at {facts['location']}.", facts)


def rename(
    cli: Cli,
    table: TableArgument,
    new: Annotated[str, typer.Argument(metavar="NEW", help="The name that it gets.")],
) -> None:
    """Rename a table. It keeps its files, its history and its id."""
    with cli.lake() as lake:
        found = lake.rename(table, new)
        facts = {"table": found.name, "before": table, "version": found.version}
    cli.say(f"Table {table} is called {new} from version {facts['version']} on.", facts)


def audit(
    cli: Cli,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="[TABLE|verify]", help="A table; all when left out. `verify` checks the trail."
        ),
    ] = None,
    actor: Annotated[str | None, typer.Option("--actor", help="Only what this user did.")] = None,
    action: Annotated[
        str | None, typer.Option("--action", help="Only this action, such as DELETE.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only from this time on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only up to this time.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="At most so many, the newest.")] = 20,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export", metavar="FILE", help="Write all of them to a file: .csv, or JSON lines."
        ),
    ] = None,
) -> None:
    """List who did what, oldest first; `audit verify` checks that the records are unchanged.

    A table whose name is `verify` is written `.verify`.
    """
    from lakeward.cli.views import history as text

    if table == "verify":
        return _verify_audit(cli)
    name = None if table is None else table.removeprefix(".")
    with cli.lake() as lake:
        if name is not None and not lake.audit(table=name, limit=1):
            lake.table(name)
        if export is not None:
            every = lake.audit(
                table=name, actor=actor, action=action, since=since, until=until, limit=None
            )
            _export_audit(cli, every[::-1], export)
            return None
        entries = lake.audit(
            table=name, actor=actor, action=action, since=since, until=until, limit=limit + 1
        )
    shown, more = entries[:limit][::-1], len(entries) > limit
    cli.answer({"table": name, "entries": shown, "more": more}, text.audit(shown, more=more))
    return None


def _export_audit(cli: Cli, entries: list[AuditRecord], file: Path) -> None:
    import csv
    import json

    from lakeward.cli.context import absolute
    from lakeward.model.records import to_json

    rows = [to_json(entry) for entry in entries]
    with absolute(file).open("w", encoding="utf-8", newline="") as out:
        if file.suffix.lower() == ".csv":
            names = ["table", "number", "timestamp", "actor", "action", "transaction_id"]
            writer = csv.DictWriter(out, [*names, "version", "detail", "hash"])
            writer.writeheader()
            writer.writerows({**row, "detail": json.dumps(row["detail"])} for row in rows)
        else:
            out.writelines(json.dumps(row) + "\n" for row in rows)
    cli.say(f"{len(rows):,} entries are written to {file}.", {"file": file, "entries": len(rows)})


def _verify_audit(cli: Cli) -> None:
    from lakeward.cli.views import history as text
    from lakeward.errors import StoreCorrupt

    with cli.lake(repair=False) as lake, cli.output.working("Checking the trail") as advance:
        found = lake.verify_audit(progress=advance)
    if not found.is_whole:
        first = found.breaks[0]
        many = len(found.breaks)
        where = f"{many} audit trails are broken, that" if many > 1 else "The audit trail"
        what = f"{where} of {first.table} at entry {first.entry}: {first.reason}."
        hint = "The store was changed by something other than Lakeward. Compare it with a backup."
        raise StoreCorrupt(what, hint=hint, breaks=[str(b) for b in found.breaks])
    cli.answer(found, text.trail(found))
