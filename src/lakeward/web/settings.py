"""Settings of the service: its address, anonymous access, and limits."""

from __future__ import annotations

import ipaddress
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
        public_name: The host name by which a proxy on this machine serves it to others.
        max_json: Bytes that a request's JSON body may have.
        max_upload: Bytes that an upload of rows may have.
        max_rows: Bytes that the rows of an upload may have in memory, all together: a small
            compressed file can hold very many.
        body_seconds: Within which time the body of a request must have arrived.
        rate: Requests per second that one caller may make for long.
        burst: Requests that one caller may make at once.
    """

    host: str = "127.0.0.1"
    port: int = 8050
    anonymous: Role | None = Role.READER
    public_name: str | None = None
    max_json: int = 1 << 20
    max_upload: int = 256 << 20
    max_rows: int = 4 << 30
    body_seconds: float = 60.0
    rate: float = 100.0
    burst: float = 300.0

    @property
    def is_loopback(self) -> bool:
        """Whether it listens on this machine only."""
        return is_loopback(self.host)

    def answers_to(self, host: str) -> bool:
        """Whether requests for a host name are answered.

        On loopback only the machine's own names are: a website could otherwise reach the service by
        a name of its own that resolves to 127.0.0.1.
        """
        if not self.is_loopback:
            return True
        own = self.public_name
        return is_loopback(host) or (own is not None and host.lower() == own.lower())


def is_loopback(host: str) -> bool:
    """Whether an address or a name is this machine's own."""
    plain = host.strip("[]").lower()
    if plain in _LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(plain).is_loopback
    except ValueError:
        return False


def check_binding(lake: Lake, settings: Settings) -> None:
    """Refuse to serve other machines unless every request needs a token.

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
    if not any(token.valid for token in lake.tokens()):
        what = f"{place}: other machines reach it, and the lake has no valid token."
        raise InvalidInput(what, hint="Create one with `lakeward token create` first.")
