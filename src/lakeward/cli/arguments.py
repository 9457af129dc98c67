"""Arguments and options that several commands share, and completion of table names."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from lakeward.cli.context import DEFAULT_LAKE


def complete_table(ctx: Any, incomplete: str) -> list[str]:
    """Return the lake's tables whose names begin with a text, for completion in the shell.

    This only reads: no lake is created or repaired, and after an error there is no completion.
    """
    from lakeward.lake.opening import table_names

    try:
        names = table_names(_target(ctx))
    except Exception:  # noqa: BLE001  a shell that is completing has no place for errors
        return []
    return [name for name in names if name.startswith(incomplete)]


TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="TABLE",
        help="A table's name: `orders` or `sales.orders`.",
        autocompletion=complete_table,
        show_default=False,
    ),
]
VersionOption = Annotated[
    int | None,
    typer.Option("--version", min=0, metavar="N", help="The table as of this version."),
]
TimestampOption = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="The table as of this moment, in ISO 8601; UTC unless it says otherwise.",
    ),
]
TagOption = Annotated[
    str | None,
    typer.Option("--tag", metavar="NAME", help="The table as of this tag.", show_default=False),
]
TransactionOption = Annotated[
    str | None,
    typer.Option(
        "--transaction", metavar="ID", help="The table as this transaction left the lake."
    ),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TAG|TIME|ID",
        help="A tag, a moment in ISO 8601, or a transaction's id; now unless given.",
        show_default=False,
    ),
]

ParamOption = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        metavar="NAME[:TYPE]=VALUE",
        help="A value for `:name`; a text unless it has a type: int, float, decimal, bool, date, "
        "timestamp, bytes, null or json. Repeat it.",
    ),
]


def _target(ctx: Any) -> str:
    """Return the lake given by the arguments so far, else by the environment, else the default."""
    while ctx is not None:
        given = (ctx.params or {}).get("lake")
        if given:
            return str(given)
        ctx = ctx.parent
    return os.environ.get("LAKEWARD_LAKE") or DEFAULT_LAKE
