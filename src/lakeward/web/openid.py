"""Validates bearer tokens of an OpenID provider: signature, audience and expiry.

An administrator configures the address of a trusted provider, and the audience that its tokens must
have. The provider's keys are fetched from that address and cached. The roles of a user come from
the lake, not from the token.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from lakeward.errors import InvalidInput
from lakeward.web.provider_keys import ProviderKeys
from lakeward.web.settings import is_loopback

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a key pair. With a shared secret, or `none`, others could sign tokens too."""
_REQUIRED: Final = ("exp", "iss", "aud", "sub")
_LEEWAY_SECONDS: Final = 30
_MOST_GROUPS: Final = 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """A user, as described in a token of an OpenID provider.

    Attributes:
        shown: The name of the user that commits and the audit trail record.
        names: The names of the user and of the user's groups, to which a lake can give roles.
    """

    shown: str
    names: frozenset[str]


@dataclass
class Provider:
    """An OpenID provider whose tokens are accepted.

    Attributes:
        issuer: The provider's address, exactly as in its tokens.
        audience: The audience that its tokens must have.
        groups_claim: The claim that has the groups of a user.
    """

    issuer: str
    audience: str
    groups_claim: str = "groups"
    _keys: ProviderKeys = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check that the issuer uses HTTPS or is on this machine, and that an audience is given."""
        parts = urlsplit(self.issuer)
        is_own = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not parts.hostname or not (parts.scheme == "https" or is_own):
            what = f"{self.issuer!r} is no address of an OpenID provider."
            raise InvalidInput(what, hint="Give one that begins with https://.")
        if not self.audience:
            raise InvalidInput("The tokens of a provider must be for somebody.")  # noqa: EM101
        self._keys = ProviderKeys(self.issuer)

    def identity_of(self, token: str) -> Identity | None:
        """Return the user of a token; None unless it is a valid token of this provider.

        Raises:
            StoreUnavailable: The token's key is not known, and the provider does not answer.
        """
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in _ALGORITHMS:
                return None
            key = self._keys.find(str(head.get("kid", "")))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key,
                algorithms=[head["alg"]],
                audience=self.audience,
                issuer=self.issuer,
                leeway=_LEEWAY_SECONDS,
                options={"require": list(_REQUIRED)},
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            return None
        return _identity(claims, self.groups_claim)


def _identity(claims: Mapping[str, Any], groups_claim: str) -> Identity | None:
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject:
        return None
    names = {f"sub:{subject}"}
    email = claims.get("email")
    is_verified = claims.get("email_verified") is True and isinstance(email, str)
    if is_verified:
        names.add(f"email:{email}")
    groups = claims.get(groups_claim)
    if isinstance(groups, str):
        groups = [groups]
    if isinstance(groups, list):
        names |= {f"group:{group}" for group in groups[:_MOST_GROUPS] if isinstance(group, str)}
    return Identity(str(email) if is_verified else f"sub:{subject}", frozenset(names))
