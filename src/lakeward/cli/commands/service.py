"""The service and its users: `serve`, tokens, and members of an OpenID provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lakeward.cli.context import Cli
from lakeward.cli.program import command

if TYPE_CHECKING:
    from lakeward.model.roles import Role

RoleName: TypeAlias = Annotated[
    str, typer.Option("--role", metavar="reader|writer|admin", help="What is allowed.")
]
Patterns: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--tables",
        metavar="PATTERN",
        help="The tables for which it is allowed: 'gold.*'. Repeat it for more; all unless given.",
        show_default=False,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    command(app, rich_help_panel="Service")(serve)
    token = typer.Typer(help="Access tokens of the service: who may do what with which tables.")
    command(token, "create")(create)
    command(token, "list")(list_tokens)
    command(token, "revoke")(revoke)
    command(token, "allow")(allow)
    command(token, "allowed")(allowed)
    command(token, "disallow")(disallow)
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
    openid_issuer: Annotated[
        str | None,
        typer.Option(
            "--openid-issuer",
            metavar="URL",
            help="An OpenID provider whose tokens are accepted; `token allow` gives roles.",
            show_default=False,
        ),
    ] = None,
    openid_audience: Annotated[
        str | None,
        typer.Option(
            "--openid-audience",
            metavar="NAME",
            help="For whom the provider's tokens must be.",
            show_default=False,
        ),
    ] = None,
    openid_groups: Annotated[
        str, typer.Option("--openid-groups", metavar="CLAIM", help="The claim with the groups.")
    ] = "groups",
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes; several need PostgreSQL.")
    ] = 1,
    browser: Annotated[
        bool, typer.Option("--browser", help="Open the dashboard in a browser.")
    ] = False,
    log: Annotated[bool, typer.Option("--log", help="Print a line for each request.")] = False,
) -> None:
    """Serve the lake: a dashboard, a REST API, and an Iceberg REST catalog.

    It listens on this machine only, unless --host gives another address; then every request needs a
    token. Ctrl-C or SIGTERM ends it, after the requests that are under way.
    """
    from lakeward.web.serving import check_installed, log_requests, serve_by_workers
    from lakeward.web.serving import serve as run
    from lakeward.web.settings import Settings, is_loopback

    check_installed()
    is_own = is_loopback(host) and public_name is None
    settings = Settings(
        host,
        port,
        _anonymous(anonymous, is_loopback=is_own),
        public_name,
        openid=_openid(openid_issuer, openid_audience, openid_groups),
    )

    def started(address: str) -> None:
        cli.say(f"Serving {cli.output.mask(cli.target)} at {address}", {"address": address})
        if browser:
            import webbrowser

            webbrowser.open(address)

    if workers > 1:
        given = cli.warehouse_given
        serve_by_workers(cli.target, given, settings, workers, log=log, started=started)
        return
    if log:
        log_requests()
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
    role: RoleName = "reader",
    tables: Patterns = None,
    expires: Annotated[
        str, typer.Option("--expires", metavar="TIME", help="How long it is valid; or never.")
    ] = "90d",
) -> None:
    """Create an access token. It is printed once; the store keeps only a hash of it."""
    with cli.lake() as lake:
        made = lake.create_token(
            name,
            role=role,
            tables=tables or "*",
            expires=None if expires == "never" else expires,
        )
    said = f"Token {made.token_id} for {made.name}, {made.role.value} of {', '.join(made.tables)}:"
    cli.say(said, made, "Keep it: it is not shown again.", shown=made.secret)


def list_tokens(cli: Cli) -> None:
    """List the access tokens, without their secrets."""
    from lakeward.cli.views import tokens as text

    with cli.lake() as lake:
        found = lake.tokens()
    cli.answer({"tokens": found}, text.tokens(found))


def revoke(
    cli: Cli, token_id: Annotated[str, typer.Argument(metavar="ID", help="Of the token.")]
) -> None:
    """Revoke a token: it is refused from now on."""
    with cli.lake() as lake:
        done = lake.revoke_token(token_id)
    cli.say(f"Token {done.token_id} for {done.name} is revoked.", done)


def allow(
    cli: Cli,
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="sub:…, email:… or group:… of an OpenID provider."),
    ],
    role: RoleName = "reader",
    tables: Patterns = None,
) -> None:
    """Give a user or a group of an OpenID provider a role."""
    with cli.lake() as lake:
        made = lake.allow(name, role=role, tables=tables or "*")
    shown = ", ".join(one.tables for one in made)
    cli.say(f"{name} is {made[0].role.value} of {shown}.", {"members": made})


def allowed(cli: Cli) -> None:
    """List the roles of users and groups of an OpenID provider."""
    from lakeward.cli.views import tokens as text

    with cli.lake() as lake:
        found = lake.allowed()
    cli.answer({"members": found}, text.members(found))


def disallow(cli: Cli, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Remove all roles of a user or a group of an OpenID provider."""
    with cli.lake() as lake:
        lake.disallow(name)
    cli.say(f"{name} has no role any more.", {"name": name})


def _openid(issuer: str | None, audience: str | None, groups: str) -> dict[str, str] | None:
    from lakeward.errors import InvalidInput

    if issuer is None and audience is None:
        return None
    if issuer is None or audience is None:
        what = "An OpenID provider needs both its address and the audience of its tokens."
        raise InvalidInput(what, hint="Give --openid-issuer and --openid-audience.")
    return {"issuer": issuer, "audience": audience, "groups_claim": groups}


def _anonymous(given: str | None, *, is_loopback: bool) -> Role | None:
    from lakeward.errors import InvalidInput
    from lakeward.model import arguments
    from lakeward.model.roles import Role

    if given is None:
        return Role.READER if is_loopback else None
    if given == "none":
        return None
    try:
        return arguments.choice(given, Role, "anonymous")
    except InvalidInput as error:
        raise InvalidInput(error.what, hint="none refuses them.", parameter="anonymous") from error
