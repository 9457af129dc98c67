"""Authorization: decides for every route whether the caller may use it.

Every endpoint declares the role that it requires with `needs`. `authorize` runs before every
endpoint: it identifies the caller, and refuses an endpoint without a declared role, a role that is
too low, and a table that the caller has no access to, which looks as if it did not exist. Endpoints
reach the lake only through a `Caller`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from lakeward.errors import LakewardError, NotFound, TableNotFound
from lakeward.model.names import TableName
from lakeward.model.namespaces import DEFAULT, joined
from lakeward.model.policy.patterns import EVERY, Pattern
from lakeward.model.roles import Role

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake
    from lakeward.lake.table import Table
    from lakeward.lake.tokens import Token
    from lakeward.web.openid import Provider

COOKIE: Final = "lakeward_token"
KNOWN: Final = "lakeward.known"
"""The key in a request's scope whose value is whether the request has a valid token."""
_FORWARDED: Final = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_F = TypeVar("_F", bound=Callable[..., Any])


class Unauthenticated(LakewardError):
    """The request has no valid token, and anonymous access is not allowed."""


class Forbidden(LakewardError):
    """The caller's role does not allow this."""


class Need(NamedTuple):
    """The access that an endpoint requires.

    Attributes:
        role: The lowest role that may call it; None for a public endpoint.
        everything: Whether the caller must have access to all tables.
    """

    role: Role | None
    everything: bool = False


def needs(role: Role | None, *, everything: bool = False) -> Callable[[_F], _F]:
    """Declare the access that an endpoint requires. Without it, every call is refused."""

    def declare(endpoint: _F) -> _F:
        endpoint.need = Need(role, everything)  # type: ignore[attr-defined]
        return endpoint

    return declare


def need_of(endpoint: Any) -> Need | None:
    """Return the access that an endpoint declared with `needs`; None if it declared none."""
    return getattr(endpoint, "need", None)


class Grant(NamedTuple):
    """A role for the tables that a pattern matches."""

    role: Role
    tables: Pattern


@dataclass(frozen=True)
class Caller:
    """A user with roles, and the part of the lake that the user may see.

    Attributes:
        name: Recorded as the actor of commits.
        lake: The lake, with the user as its actor.
        grants: The roles that the user has, each for the tables that a pattern matches.
        needed: The role that the endpoint requires, which `check` requires unless another is given.
        is_known: Whether the user has shown a valid token.
    """

    name: str
    lake: Lake
    grants: tuple[Grant, ...]
    needed: Role = Role.READER
    is_known: bool = False

    @property
    def role(self) -> Role | None:
        """The highest role that the user has for any table; None if there is none."""
        order = list(Role)
        return max((grant.role for grant in self.grants), key=order.index, default=None)

    @property
    def tables_open(self) -> tuple[Pattern, ...]:
        """Patterns of the tables that the user has access to."""
        return tuple(dict.fromkeys(grant.tables for grant in self.grants))

    @property
    def sees_everything(self) -> bool:
        """Whether the caller has access to all tables."""
        return any(grant.tables.text == EVERY for grant in self.grants)

    def sees(self, name: str) -> bool:
        """Return whether the caller has access to tables of this name."""
        return self.may_with(name, Role.READER)

    def may_with(self, name: str, role: Role) -> bool:
        """Return whether the caller has at least `role` for tables of this name."""
        parsed = TableName.parse(name)
        return any(g.role.includes(role) and g.tables.matches(parsed) for g in self.grants)

    def may_in(self, namespace: str, role: Role) -> bool:
        """Return whether the caller has at least `role` for every table name of a namespace."""
        return any(g.role.includes(role) and g.tables.covers(namespace) for g in self.grants)

    def check(self, name: str, role: Role | None = None) -> str:
        """Return a table's name if the caller has `role` for it; the endpoint's role unless given.

        Raises:
            TableNotFound: The caller has no access to the table.
            Forbidden: The caller's role for the table is too low.
        """
        if not self.sees(name):
            what = f"The lake has no table {name}, or it is not open to you."
            raise TableNotFound(what, table=name)
        needed = role or self.needed
        if not self.may_with(name, needed):
            what = f"This needs the role {needed.value} for table {name}."
            raise Forbidden(what, hint="Ask an administrator of the lake for it.")
        return name

    def check_all(self, names: Iterable[str] | None, role: Role | None = None) -> list[str] | None:
        """Check several names as `check` does, and return them; None means all tables."""
        if names is None:
            self.check_everything()
            return None
        return [self.check(name, role) for name in names]

    def check_hidden(self, names: Iterable[str], what: str) -> None:
        """Raise `NotFound` if the caller has no access to one of the tables, without its name.

        `what` is what the tables belong to, as the subject of the error's sentence.
        """
        if not all(map(self.sees, names)):
            what = f"{what} is also about tables that are not open to you."
            raise NotFound(what, hint="Ask an administrator of the lake.")

    def check_everything(self) -> None:
        """Raise `Forbidden` unless the caller has the endpoint's role for all tables."""
        if not self.may_everywhere(self.needed):
            what = "This is about the whole lake, and only some tables are open to you."
            raise Forbidden(what, hint="Name tables, or use a token for all tables.")

    def may_everywhere(self, role: Role) -> bool:
        """Return whether the caller has at least this role for all tables."""
        return any(g.role.includes(role) and g.tables.text == EVERY for g in self.grants)

    def table(self, name: str) -> Table:
        """Return a table of the lake; raise an error as `check` does."""
        return self.lake.table(self.check(name))

    def tables(self) -> list[Table]:
        """Return the tables that the caller has access to, by name."""
        return [table for table in self.lake.tables() if self.sees(table.name)]


async def authorize(request: Request) -> None:
    """Identify the caller of a request, and check that the caller may use the endpoint.

    Only a request with a token needs a thread, in which the token is looked up.

    Raises:
        Unauthenticated: The endpoint needs a role, and the request has no valid token.
        Forbidden: The endpoint declares no role, or the caller's role is too low.
        TableNotFound: The caller has no access to the table of the request.
    """
    if _secret(request) is None:
        _authorize(request)
    else:
        await run_in_threadpool(_authorize, request)


def caller_of(request: Request, secret: str) -> Caller:
    """Return the user of an access token of the lake or of the OpenID provider.

    If the token is not valid, the caller has no roles.
    """
    lake: Lake = request.app.state.lake
    token: Token | None = lake.token_of(secret) if secret else None
    if token is not None:
        grants = tuple(Grant(token.role, Pattern.parse(text)) for text in token.tables)
        return Caller(token.name, lake.acting_as(token.name), grants, is_known=True)
    provider: Provider | None = request.app.state.provider
    found = None if provider is None or not secret else provider.identity_of(secret)
    if found is None:
        return Caller("nobody", lake, ())
    roles = lake.roles_of(found.names)
    given = tuple(Grant(one.role, Pattern.parse(one.tables)) for one in roles)
    return Caller(found.shown, lake.acting_as(found.shown), given, is_known=True)


def _authorize(request: Request) -> None:
    need = need_of(getattr(request.scope.get("route"), "endpoint", None))
    needed = Role.ADMIN if need is None or need.role is None else need.role
    caller = request.state.caller = replace(_caller(request), needed=needed)
    # The limit of requests tells users by this from those who guess tokens.
    request.scope[KNOWN] = caller.is_known
    if need is None:
        what = "This address says of nobody that they may use it, so nobody may."
        raise Forbidden(what)
    if need.role is None:
        return
    if caller.role is None and caller.is_known:
        what = f"{caller.name} has no role in this lake."
        raise Forbidden(what, hint="`lakeward token allow` gives one.")
    if caller.role is None:
        what = "This needs a valid token."
        hint = "Send it as `Authorization: Bearer …`; `lakeward token create` makes one."
        raise Unauthenticated(what, hint=hint)
    if not caller.role.includes(need.role):
        what = f"This needs the role {need.role.value}; yours is {caller.role.value}."
        raise Forbidden(what, hint="`lakeward token create --role` makes a token of that role.")
    if need.everything:
        caller.check_everything()
    place = request.path_params
    if "table" in place:
        caller.check(place["table"])
    for kind in ("iceberg_table", "iceberg_view"):
        if kind in place:
            levels, name = place["namespace"].split("\x1f"), place[kind]
            # A table without a namespace is in one of this name for Iceberg.
            if not (levels == [DEFAULT] and caller.sees(name)):
                caller.check(f"{joined(levels)}.{name}")


def _caller(request: Request) -> Caller:
    state = request.app.state
    secret = _secret(request)
    if secret is not None:
        return caller_of(request, secret)
    # A proxy on this machine makes requests of others look like its own.
    is_own = not any(name in request.headers for name in _FORWARDED)
    anonymous: Role | None = state.settings.anonymous if is_own else None
    grants = () if anonymous is None else (Grant(anonymous, Pattern(EVERY)),)
    return Caller("anonymous", state.lake.acting_as("anonymous"), grants)


def _secret(request: Request) -> str | None:
    """Return the token in a request's header or in the cookie of the dashboard.

    None if the request has neither; empty if the header has no bearer token.
    """
    header = request.headers.get("authorization")
    if header is None:
        return request.cookies.get(COOKIE)
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


async def _of_request(request: Request) -> Caller:
    # A coroutine, because FastAPI calls functions in another thread.
    caller: Caller = request.state.caller
    return caller


By = Annotated[Caller, Depends(_of_request)]
"""The type of the parameter by which an endpoint gets its caller."""
