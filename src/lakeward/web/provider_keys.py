"""The keys of an OpenID provider, which are fetched in the background.

A provider that is slow or silent holds up no request whose key is known, and few others.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from lakeward.errors import LakewardError, StoreUnavailable

_RENEW_SECONDS: Final = 300.0
_KEYS_SECONDS: Final = 600.0
_WITHOUT_PROVIDER_SECONDS: Final = 3600.0
"""For so long, keys are used if the provider does not answer."""
_AGAIN_SECONDS: Final = 15.0
_AFTER_FAILURE_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 2.0
_MOST_WAITING: Final = 8
_TIMEOUT_SECONDS: Final = 2.0
_MOST_BYTES: Final = 1 << 20


class ProviderKeys:
    """The keys of the provider at an address, by their ids."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._keys: dict[str, Any] = {}
        self._fetched = self._tried = self._began = float("-inf")
        self._is_fetching = False
        self._failure: LakewardError | None = None
        self._waiting = 0
        self._changed = threading.Condition()

    def find(self, kid: str) -> Any:
        """Return the key of an id, or None; for unknown ids, fetch the keys only now and then.

        Raises:
            StoreUnavailable: The key is not known, and the provider does not answer.
        """
        with self._changed:
            if self._is_due(kid):
                self._begin()
            if self._is_known(kid):
                return self._keys[kid]
            self._wait()
            if kid in self._keys and self._age() <= _WITHOUT_PROVIDER_SECONDS:
                return self._keys[kid]
            if self._failure is not None:
                raise StoreUnavailable(self._failure.what, hint=self._failure.hint)
            if self._is_fetching:
                raise _silent()
            return None

    def _age(self) -> float:
        return time.monotonic() - self._fetched

    def _is_due(self, kid: str) -> bool:
        """Return whether the keys must be fetched now."""
        if self._is_fetching:
            return False
        pause = _AGAIN_SECONDS if self._failure is None else _AFTER_FAILURE_SECONDS
        is_wanted = kid not in self._keys or self._age() > _RENEW_SECONDS
        return is_wanted and time.monotonic() - self._tried > pause

    def _begin(self) -> None:
        """Fetch the keys in a thread, which cannot end before the caller frees the lock."""
        try:
            threading.Thread(target=self._renew, daemon=True).start()
        except RuntimeError:  # The process can have no more threads at this moment.
            self._tried, self._failure = time.monotonic(), _silent()
        else:
            self._is_fetching, self._began = True, time.monotonic()

    def _is_known(self, kid: str) -> bool:
        """Return whether a key can be used without waiting for the provider."""
        most = _KEYS_SECONDS if self._failure is None else _WITHOUT_PROVIDER_SECONDS
        return kid in self._keys and self._age() <= most

    def _wait(self) -> None:
        """Wait for the end of a fetch, unless it takes long or many requests wait."""
        left = self._began + _PATIENCE_SECONDS - time.monotonic()
        if self._waiting < _MOST_WAITING:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._is_fetching, max(0.0, left))
            self._waiting -= 1

    def _renew(self) -> None:
        found: dict[str, Any] | None = None
        failure: LakewardError | None = None
        try:
            found = _fetch(self._issuer)
        except LakewardError as error:
            failure = error
        except Exception:  # noqa: BLE001  whatever it is, no request may wait for its end
            failure = _silent()
        with self._changed:
            self._is_fetching, self._tried, self._failure = False, time.monotonic(), failure
            if found is not None:
                self._keys, self._fetched = found, self._tried
            self._changed.notify_all()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, which could lead to an address that is not secure."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that the redirect is not followed."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


def _fetch(issuer: str) -> dict[str, Any]:
    described = _json(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
    if described.get("issuer") != issuer:
        what = "The OpenID provider gives itself another address than the one it was named by."
        raise StoreUnavailable(what, hint="Name it exactly as it names itself.")
    place = str(described.get("jwks_uri"))
    if urlsplit(place).scheme != urlsplit(issuer).scheme:
        raise StoreUnavailable("The keys of the OpenID provider are at no safe address.")  # noqa: EM101
    try:
        found = jwt.PyJWKSet.from_dict(_json(place)).keys
    except jwt.PyJWTError as error:
        what = "The OpenID provider has no keys that can be used."
        raise StoreUnavailable(what) from error
    signing = (key for key in found if key.public_key_use in (None, "sig"))
    return {str(key.key_id or ""): key.key for key in signing}


def _json(address: str) -> dict[str, Any]:
    try:
        request = urllib.request.Request(address, headers={"Accept": "application/json"})  # noqa: S310  checked where a provider is named
        with _OPENER.open(request, timeout=_TIMEOUT_SECONDS) as answer:
            found = json.loads(answer.read(_MOST_BYTES))
    except (OSError, ValueError, HTTPException) as error:
        raise _silent() from error
    if not isinstance(found, dict):
        raise _silent()
    return found


def _silent() -> StoreUnavailable:
    what = "The OpenID provider does not answer as one does."
    return StoreUnavailable(what, hint="Try again in some seconds.")
