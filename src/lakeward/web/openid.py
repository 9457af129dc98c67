"""Validates bearer tokens of an OpenID provider: signature, audience and expiry.

An administrator configures the address of a trusted provider, and the audience that its tokens must
have. The provider's keys are fetched from that address and cached. The roles of a user come from
the lake, not from the token.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from lakeward.errors import InvalidInput, StoreUnavailable
from lakeward.web.settings import is_loopback

_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms with a key pair. With a shared secret, or `none`, others could sign tokens too."""
_REQUIRED: Final = ("exp", "iss", "aud", "sub")
_LEEWAY_SECONDS: Final = 30
_KEYS_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 15.0
_TIMEOUT_SECONDS: Final = 5.0
_MOST_BYTES: Final = 1 << 20
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
    _keys: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    _fetched: float = field(default=-_KEYS_SECONDS, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        """Check that the issuer uses HTTPS or is on this machine, and that an audience is given."""
        parts = urlsplit(self.issuer)
        is_own = parts.scheme == "http" and is_loopback(parts.hostname or "")
        if not parts.hostname or not (parts.scheme == "https" or is_own):
            what = f"{self.issuer!r} is no address of an OpenID provider."
            raise InvalidInput(what, hint="Give one that begins with https://.")
        if not self.audience:
            raise InvalidInput("The tokens of a provider must be for somebody.")  # noqa: EM101

    def identity_of(self, token: str) -> Identity | None:
        """Return the user of a token; None unless it is a valid token of this provider.

        Raises:
            StoreUnavailable: The provider's keys cannot be fetched.
        """
        try:
            head = jwt.get_unverified_header(token)
            if head.get("alg") not in _ALGORITHMS:
                return None
            key = self._key(str(head.get("kid", "")))
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

    def _key(self, kid: str) -> Any:
        """Return the key of an id, or None; for unknown ids, fetch the keys only now and then."""
        with self._lock:
            age = time.monotonic() - self._fetched
            if age > _KEYS_SECONDS or (kid not in self._keys and age > _AGAIN_SECONDS):
                self._keys, self._fetched = self._fetch(), time.monotonic()
            return self._keys.get(kid)

    def _fetch(self) -> dict[str, Any]:
        described = _json(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration")
        if described.get("issuer") != self.issuer:
            what = "The OpenID provider gives itself another address than the one it was named by."
            raise StoreUnavailable(what, hint="Name it exactly as it names itself.")
        place = str(described.get("jwks_uri"))
        if urlsplit(place).scheme != urlsplit(self.issuer).scheme:
            raise StoreUnavailable("The keys of the OpenID provider are at no safe address.")  # noqa: EM101
        try:
            found = jwt.PyJWKSet.from_dict(_json(place)).keys
        except jwt.PyJWTError as error:
            what = "The OpenID provider has no keys that can be used."
            raise StoreUnavailable(what) from error
        signing = (key for key in found if key.public_key_use in (None, "sig"))
        return {str(key.key_id or ""): key.key for key in signing}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, which could lead to an address that is not secure."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that the redirect is not followed."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


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


def _json(address: str) -> dict[str, Any]:
    try:
        request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310  checked above
        with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        what = "The OpenID provider does not answer as one does."
        raise StoreUnavailable(what, hint="Try again later.") from error
    if not isinstance(found, dict):
        raise StoreUnavailable("The OpenID provider does not answer as one does.")  # noqa: EM101
    return found
