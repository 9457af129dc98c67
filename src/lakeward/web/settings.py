"""Settings of the service: its address, anonymous access, and limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from lakeward.errors import InvalidInput
from lakeward.model.roles import Role

if TYPE_CHECKING:
    from lakeward.lake.lake import Lake

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a running service.

    Attributes:
        host: The address to listen on.
        port: The port; 0 for a free one.
        anonymous: The role of requests without a token; None to refuse them. Only on loopback.
        public_name: The host name under which a proxy on this machine makes the service public.
        max_json: The most bytes of a request's JSON body.
        max_upload: The most bytes of an upload of rows.
        max_rows: The most bytes in memory of all rows of an upload, because a small compressed file
            can contain very many rows.
        decoders: The most uploads that are decoded at the same time, each in its own process.
        decoder_memory: The most bytes of address space of such a process.
        max_pending: The most bytes of the rows of a transaction over several requests.
        body_seconds: The time within which the body of a request must arrive.
        queries: The most queries of users that run at the same time.
        query_seconds: The most seconds that one query may take.
        query_memory: The most bytes of address space of the process of one query.
        rate: The average of requests per second that one caller may make.
        burst: The most requests that one caller may make at once.
        strangers_rate: The average of requests with unknown tokens per second from one address.
        strangers_burst: The most requests with unknown tokens at once from one address.
        openid: An OpenID provider whose tokens are accepted, as arguments of `openid.Provider`.
    """

    host: str = "127.0.0.1"
    port: int = 8050
    anonymous: Role | None = Role.READER
    public_name: str | None = None
    max_json: int = 1 << 20
    max_upload: int = 256 << 20
    max_rows: int = 4 << 30
    decoders: int = 4
    decoder_memory: int = 2 << 30
    max_pending: int = 1 << 30
    body_seconds: float = 60.0
    queries: int = 4
    query_seconds: float = 60.0
    query_memory: int = 8 << 30
    rate: float = 100.0
    burst: float = 300.0
    strangers_rate: float = 10.0
    strangers_burst: float = 100.0
    openid: Mapping[str, str] | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether the service listens on this machine only."""
        return is_loopback(self.host)

    def answers_to(self, host: str) -> bool:
        """Return whether the service answers requests for a host name.

        On loopback, only names of this machine and `public_name` are answered: otherwise a website
        could reach the service under a host name that resolves to 127.0.0.1.
        """
        if not self.is_loopback:
            return True
        own = self.public_name
        return is_loopback(host) or (own is not None and host.lower() == own.lower())


def is_loopback(host: str) -> bool:
    """Return whether a host name or an address is a loopback address of this machine."""
    plain = host.strip("[]").lower()
    if plain in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(plain).is_loopback
    except ValueError:
        return False


def check_binding(lake: Lake, settings: Settings) -> None:
    """Check that every request needs a token if other machines can reach the service.

    Raises:
        InvalidInput: Other machines could connect without a token, or no request would be allowed.
    """
    if settings.is_loopback and settings.public_name is None:
        return
    where = settings.host if settings.public_name is None else f"behind {settings.public_name}"
    place = f"The service does not listen on {where}"
    if settings.anonymous is not None:
        what = f"{place}: other machines reach it, and requests without a token would be answered."
        raise InvalidInput(what, hint="Leave out --anonymous, or listen on 127.0.0.1 only.")
    if settings.openid is not None and lake.allowed():
        return
    if not any(token.valid for token in lake.tokens()):
        what = f"{place}: other machines reach it, and the lake has no valid token."
        hint = "Create one with `lakeward token create`, or `lakeward token allow` for OpenID."
        raise InvalidInput(what, hint=hint)
