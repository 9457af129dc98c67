"""Removes passwords from everything that is printed.

A lake on PostgreSQL is given by a URL that may contain a password, and a driver's error may quote
the URL or a part of it. Text that leaves the program passes through a `Mask` first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

HIDDEN: Final = "***"
_IN_URL: Final = re.compile(
    r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s:/@]*:)(?P<secret>[^\s]+)@", re.I
)
_IN_PAIR: Final = re.compile(
    r"(?P<before>\b(?:ssl)?password\s*[=:]\s*)(?P<secret>'[^']*'|\"[^\"]*\"|[^\s&'\"]+)", re.I
)


class Mask:
    """Hides the secrets in a target's URL, and other secrets.

    Args:
        target: A directory, or a URL that may contain a password.
        *others: Further secrets.
    """

    def __init__(self, target: str = "", *others: str) -> None:
        scheme, separator, rest = target.partition("://")
        userinfo, at, place = rest.rpartition("@")
        user, colon, password = userinfo.partition(":")
        secrets: set[str] = set()
        if separator and at and colon and password:
            # A password with a character that ends a URL's host is torn to pieces by parsers.
            secrets = {password, unquote(password), *re.split(r"[/?#@:]", password)}
        secrets |= {m["secret"] for m in _IN_PAIR.finditer(target)}
        # A password that is also the name of something hides nothing when it is masked.
        known = f"{scheme} {user} {place.partition('?')[0]}"
        masked = [s for s in secrets if s and s not in known] + [s for s in others if s]
        self._secrets = sorted(masked, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text with secrets replaced by `***`."""
        # Most texts are short names, in which a search for a part takes less than the patterns do.
        if "://" in text:
            text = _IN_URL.sub(rf"\g<before>{HIDDEN}@", text)
        if "password" in text.casefold():
            text = _IN_PAIR.sub(rf"\g<before>{HIDDEN}", text)
        for secret in self._secrets:
            if secret in text:
                text = re.sub(_whole(secret), HIDDEN, text)
        return text

    def deeply(self, value: Any) -> Any:
        """Return a value with secrets hidden in every text inside mappings and sequences."""
        match value:
            case str():
                return self(value)
            case Mapping():
                return {self.deeply(k): self.deeply(v) for k, v in value.items()}
            case list() | tuple() | set() | frozenset():
                return [self.deeply(v) for v in value]
            case _:
                return value


def _whole(secret: str) -> str:
    """Return a pattern for the secret where it is not part of a longer word."""
    before = r"(?<!\w)" if secret[0].isalnum() else ""
    after = r"(?!\w)" if secret[-1].isalnum() else ""
    return f"{before}{re.escape(secret)}{after}"
