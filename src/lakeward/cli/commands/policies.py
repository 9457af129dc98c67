"""Commands on policies: `policy`, `policy show`, `set`, `unset`, `history`, `apply`, `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from lakeward.cli.arguments import TableArgument, VersionOption
from lakeward.cli.context import Cli
from lakeward.cli.program import command, group

PatternArgument = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        help="A table's name, `gold.*` for a namespace, or `*` for all tables.",
        show_default=False,
    ),
]
MessageOption = Annotated[str | None, typer.Option("--message", "-m", help="Why.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    policy = typer.Typer()
    group(policy)(policies)
    command(policy, "show")(show)
    command(policy, "set")(set_policy)
    command(policy, "unset")(unset)
    command(policy, "history")(history)
    command(policy, "apply")(apply)
    command(policy, "export")(export)
    app.add_typer(policy, name="policy", rich_help_panel="Tables")


def policies(cli: Cli) -> None:
    """List the policies of table patterns; `policy show TABLE` shows a table's effective policy."""
    from lakeward.cli.views import policies as text

    with cli.lake() as lake:
        found = lake.policies()
    cli.answer({"policies": found}, text.policies(found))


def show(cli: Cli, table: TableArgument, version: VersionOption = None) -> None:
    """Show the effective policy of a table, and where each of its fields comes from."""
    from lakeward.cli.views import policies as text

    with cli.lake() as lake:
        at = None if version is None else lake.table(table).at(version=version)
        found = lake.policy(table) if at is None else at.policy
    cli.answer(found, text.effective(found))


def set_policy(
    cli: Cli,
    pattern: PatternArgument,
    fields: Annotated[
        list[str],
        typer.Argument(
            metavar="FIELD=VALUE...",
            help="`target_file_size='128 MB'`, `schema_mode=merge`, "
            "`allowed_evolutions=add_column,set_comment`, `constraints.positive='amount > 0'`.",
            show_default=False,
        ),
    ],
    message: MessageOption = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Unset the fields that are not named.")
    ] = False,
) -> None:
    """Set fields of the policy of all tables that a pattern matches."""
    from lakeward.model.policy.policy import Policy

    given = _fields(fields)
    with cli.lake() as lake:
        known = [] if replace else lake.policies(pattern=pattern)
        before = known[0].policy if known else None
        policy = Policy.of(given)
        done = lake.set_policy(
            pattern, policy if before is None else policy.over(before), message=message
        )
    cli.say(f"The policy of {pattern} is set.", done)


def unset(cli: Cli, pattern: PatternArgument, message: MessageOption = None) -> None:
    """Remove the policy of a pattern."""
    from lakeward.errors import NotFound

    with cli.lake() as lake:
        if pattern not in [one.pattern for one in lake.policies()]:
            what = f"No policy is set for {pattern}."
            raise NotFound(what, hint="`lakeward policy list` shows the patterns.", pattern=pattern)
        done = lake.set_policy(pattern, None, message=message)
    cli.say(f"The policy of {pattern} is removed.", done)


def history(
    cli: Cli,
    pattern: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only of this pattern.")
    ] = None,
) -> None:
    """List every policy that was ever set, oldest first: who, when and why."""
    from lakeward.cli.views import policies as text

    with cli.lake() as lake:
        found = lake.policies(history=True, pattern=pattern)
    cli.answer({"policies": found}, text.policies(found))


def apply(
    cli: Cli,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML, or YAML by its suffix.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, and change nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
    ] = False,
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove policies of patterns that the file lacks.")
    ] = False,
    message: MessageOption = None,
) -> None:
    """Set the policies of a file, after printing what would change."""
    from lakeward.cli.output import words
    from lakeward.cli.views import policies as text
    from lakeward.errors import NotFound
    from lakeward.model.policy.files import planned, read_policies
    from lakeward.model.policy.policy import Policy

    try:
        source = file.read_text(encoding="utf-8")
    except OSError as error:
        what = f"The file {file} cannot be read: {error.strerror}."
        raise NotFound(what, hint="`lakeward policy export` writes one.", path=str(file)) from error
    wanted = read_policies(source, file.suffix.lower())
    with cli.lake() as lake:
        current = {p.pattern: p.policy for p in lake.policies() if p.policy is not None}
        plan = planned(current, wanted, prune=prune)
        if plan and not dry_run:
            for line in text.plan(plan):
                cli.output.note(line)
            cli.confirm(f"Change the policies of {len(plan)} patterns?", yes=yes)
            for change in plan:
                policy = None if change.after is None else Policy.of(change.after)
                lake.set_policy(change.pattern, policy, message=message)
    done = bool(plan) and not dry_run
    answer: dict[str, Any] = {"plan": plan, "applied": done}
    lines = ["The policies are set."] if done else [*text.plan(plan), "Nothing was changed."]
    cli.answer(answer, map(words.line, lines))


def export(
    cli: Cli,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Standard output unless given.")
    ] = None,
) -> None:
    """Write the policies of all patterns as TOML, which `policy apply` reads."""
    from lakeward.model.policy.files import write_policies

    with cli.lake() as lake:
        found = [(p.pattern, p.policy) for p in lake.policies() if p.policy is not None]
    toml = write_policies(found)
    if file is None:
        cli.answer({"toml": toml}, [toml.rstrip("\n")])
        return
    file.write_text(toml, encoding="utf-8")
    cli.say(f"{len(found)} policies are written to {file}.", {"path": str(file), "toml": toml})


def _fields(given: list[str]) -> dict[str, Any]:
    """Return the fields of `FIELD=VALUE` arguments, with values of each field's type."""
    from lakeward.errors import InvalidInput

    out: dict[str, Any] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign:
            what = f"{text!r} is no FIELD=VALUE."
            raise InvalidInput(what, hint="Write compression=zstd.")
        around, dot, inner = name.partition(".")
        if dot:
            out.setdefault(around, {})[inner] = value
        else:
            out[name] = _value(name, value)
    return out


def _value(name: str, text: str) -> Any:
    """Return a command-line value as a list, a boolean, a number or text."""
    if name in ("allowed_evolutions", "features", "bloom_filters", "stats_columns"):
        return [part.strip() for part in text.split(",") if part.strip()]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
