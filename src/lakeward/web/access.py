"""Who may do what: the one place that decides it, for every route.

Every endpoint declares the role that it requires with `needs`. `authorize` runs before every
endpoint: it identifies the caller, and refuses an endpoint without a declared role, a role that is
too low, and a table that the caller has no access to, which looks as if it did not exist. Endpoints
reach the lake only through a `Caller`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeVar

from fastapi import Depends, Request

from lakeward.errors import LakewardError, TableNotFound
from lakeward.model.names import TableName
from lakeward.model.policy.patterns import EVERY, Pattern
from lakeward.model.roles import Role

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake
    from lakeward.lake.table import Table
    from lakeward.lake.tokens import Token

COOKIE: Final = "lakeward_token"
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
    """The access that an endpoint declared with `needs`; None if it declared none."""
    return getattr(endpoint, "need", None)


@dataclass(frozen=True)
class Caller:
    """A user with a role, and the part of the lake that the user may see.

    Attributes:
        name: Recorded as the actor of commits.
        lake: The lake, with the user as its actor.
        tables_open: Patterns of the tables that the user has access to.
    """

    name: str
    role: Role | None
    lake: Lake
    tables_open: tuple[Pattern, ...]

    @property
    def sees_everything(self) -> bool:
        """Whether the caller has access to all tables."""
        return any(pattern.text == EVERY for pattern in self.tables_open)

    def sees(self, name: str) -> bool:
        """Whether the caller has access to tables of this name."""
        parsed = TableName.parse(name)
        return any(pattern.matches(parsed) for pattern in self.tables_open)

    def check(self, name: str) -> str:
        """Return a table's name; raise `TableNotFound` if the caller has no access to it."""
        if not self.sees(name):
            what = f"The lake has no table {name}, or it is not open to you."
            raise TableNotFound(what, table=name)
        return name

    def check_all(self, names: Iterable[str] | None) -> list[str] | None:
        """The same for several names; None stands for all tables of the lake."""
        if names is None:
            self.check_everything()
            return None
        return [self.check(name) for name in names]

    def check_everything(self) -> None:
        """Raise `Forbidden` unless the caller has access to all tables."""
        if not self.sees_everything:
            what = "This is about the whole lake, and only some tables are open to you."
            raise Forbidden(what, hint="Name tables, or use a token for all tables.")

    def may(self, role: Role) -> bool:
        """Whether the caller has at least this role."""
        return self.role is not None and self.role.includes(role)

    def table(self, name: str) -> Table:
        """A table of the lake; raise `TableNotFound` if the caller has no access to it."""
        return self.lake.table(self.check(name))

    def tables(self) -> list[Table]:
        """The tables that the caller has access to, by name."""
        return [table for table in self.lake.tables() if self.sees(table.name)]


def authorize(request: Request) -> None:
    """Let a request through to its endpoint, or refuse it."""
    need = need_of(getattr(request.scope.get("route"), "endpoint", None))
    caller = request.state.caller = _caller(request)
    if need is None:
        what = "This address says of nobody that they may use it, so nobody may."
        raise Forbidden(what)
    if need.role is None:
        return
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
    if "iceberg_table" in place:
        # A table without a namespace is in one of this name for Iceberg.
        namespace, name = place["namespace"], place["iceberg_table"]
        if not (namespace == "default" and caller.sees(name)):
            caller.check(f"{namespace}.{name}")


def _caller(request: Request) -> Caller:
    state = request.app.state
    lake: Lake = state.lake
    secret = _secret(request)
    if secret is not None:
        token: Token | None = lake.token_of(secret)
        if token is None:
            return Caller("nobody", None, lake, ())
        patterns = tuple(Pattern.parse(text) for text in token.tables)
        return Caller(token.name, token.role, lake.acting_as(token.name), patterns)
    # A proxy on this machine makes requests of others look like its own.
    is_own = not any(name in request.headers for name in _FORWARDED)
    anonymous: Role | None = state.settings.anonymous if is_own else None
    return Caller("anonymous", anonymous, lake.acting_as("anonymous"), (Pattern(EVERY),))


def _secret(request: Request) -> str | None:
    """The token of a request, from its header or from the cookie of the dashboard."""
    header = request.headers.get("authorization")
    if header is None:
        return request.cookies.get(COOKIE)
    scheme, _, secret = header.partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


def _of_request(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


By = Annotated[Caller, Depends(_of_request)]
"""The type of the parameter by which an endpoint gets its caller."""
