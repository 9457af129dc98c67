"""The service and its users: `serve`, `token create`, `token list`, `token revoke`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.model.roles import Role


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Service")(serve)
    token = typer.Typer(help="Access tokens of the service: who may do what with which tables.")
    command(token, "create")(create)
    command(token, "list")(list_tokens)
    command(token, "revoke")(revoke)
    app.add_typer(token, name="token", rich_help_panel="Service")


def serve(
    cli: Cli,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on. Others need tokens.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="The port; 0 for a free one.")
    ] = 8050,
    anonymous: Annotated[
        str | None,
        typer.Option(
            "--anonymous",
            metavar="reader|writer|admin|none",
            help="What those without a token may do; only on this machine. reader there, none "
            "elsewhere.",
            show_default=False,
        ),
    ] = None,
    public_name: Annotated[
        str | None,
        typer.Option(
            "--public-name",
            metavar="NAME",
            help="The host name by which a proxy on this machine serves it; everybody needs a "
            "token then.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes; several need PostgreSQL.")
    ] = 1,
    browser: Annotated[
        bool, typer.Option("--browser", help="Open the dashboard in a browser.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Print a line for each request.")] = False,
) -> None:
    """Serve the lake: a dashboard, a REST API, and an Iceberg REST catalog.

    It listens on this machine only, unless --host names another address; then every request needs a
    token. Ends with Ctrl-C or SIGTERM, after the requests that are under way.
    """
    from lakeward.web.serving import check_installed, serve_by_workers
    from lakeward.web.serving import serve as run
    from lakeward.web.settings import Settings, is_loopback

    check_installed()
    is_own = is_loopback(host) and public_name is None
    settings = Settings(host, port, _anonymous(anonymous, is_loopback=is_own), public_name)
    if log:
        _log_requests()
    if workers > 1:
        serve_by_workers(cli.target, cli.warehouse_given, settings, workers)
        return

    def started(address: str) -> None:
        cli.say(f"Serving {cli.output.mask(cli.target)} at {address}", {"address": address})
        if browser:
            import webbrowser

            webbrowser.open(address)

    with cli.lake() as lake:
        run(lake, cli.target, settings, started=started)


def create(
    cli: Cli,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="Who uses it; commits record this name.",
            show_default=False,
        ),
    ] = None,
    role: Annotated[
        str, typer.Option("--role", metavar="reader|writer|admin", help="What it allows.")
    ] = "reader",
    tables: Annotated[
        list[str] | None,
        typer.Option(
            "--tables",
            metavar="PATTERN",
            help="The tables that it opens: 'gold.*'. Repeat it for more; all unless given.",
            show_default=False,
        ),
    ] = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="How long it is valid; or never.")
    ] = "90d",
) -> None:
    """Create an access token. It is printed once; the lake keeps a hash of it."""
    with cli.lake() as lake:
        made = lake.create_token(
            name,
            role=role,
            tables=tables or "*",
            expires=None if expires == "never" else expires,
        )
    said = f"Token {made.token_id} for {made.name}, {made.role.value} of {', '.join(made.tables)}:"
    cli.say(f"{said}\n{made.secret}", made, "Keep it: it is not shown again.")


def list_tokens(cli: Cli) -> None:
    """List the access tokens, without their secrets."""
    from lakeward.cli.views import tokens as text

    with cli.lake() as lake:
        found = lake.tokens()
    cli.answer({"tokens": found}, text.tokens(found))


def revoke(
    cli: Cli, token_id: Annotated[str, typer.Argument(metavar="ID", help="Of the token.")]
) -> None:
    """Make a token useless from now on."""
    with cli.lake() as lake:
        done = lake.revoke_token(token_id)
    cli.say(f"Token {done.token_id} for {done.name} is revoked.", done)


def _anonymous(given: str | None, *, is_loopback: bool) -> Role | None:
    from lakeward.model import arguments
    from lakeward.model.roles import Role

    if given is None:
        return Role.READER if is_loopback else None
    return None if given == "none" else arguments.choice(given, Role, "anonymous")


def _log_requests() -> None:
    import logging

    logger = logging.getLogger("lakeward.web")
    logger.setLevel(logging.INFO)
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
