"""Signatures of S3 requests by AWS Signature Version 4, in headers."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlsplit

UNSIGNED: Final = "UNSIGNED-PAYLOAD"
DIGEST_HEADER: Final = "x-amz-content-sha256"
_DATE_HEADER: Final = "x-amz-date"
_TOKEN_HEADER: Final = "x-amz-security-token"  # noqa: S105  a header's name
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_SIGNED_TOO: Final = ("content-md5", "content-type")
_PLAIN: Final = "-._~"
"""Characters that are not encoded, besides letters and digits."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """An access key; its representation shows nothing of it."""

    key_id: str
    secret: str
    session_token: str | None = None


def signature_headers(
    key: Key, region: str, method: str, uri: str, headers: Mapping[str, str], now: datetime
) -> dict[str, str]:
    """Return the headers to add to a request, or to replace in it, so that it is signed.

    Args:
        key: The access key.
        region: The region of the bucket.
        method: The method of the request.
        uri: Its complete address.
        headers: Its headers, by names in lower case. Those of `x-amz-` are signed.
        now: The time of the signature, from which it is valid for some minutes.
    """
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%SZ")
    new = {_DATE_HEADER: moment, DIGEST_HEADER: headers.get(DIGEST_HEADER, UNSIGNED)}
    if key.session_token is not None:
        new[_TOKEN_HEADER] = key.session_token
    parts = urlsplit(uri)
    signed = {
        name: " ".join(value.split())
        for name, value in {**headers, **new, "host": parts.netloc}.items()
        if name == "host" or name in _SIGNED_TOO or name.startswith("x-amz-")
    }
    names = ";".join(sorted(signed))
    canonical = "\n".join(
        [
            method,
            quote(unquote(parts.path) or "/", safe=f"/{_PLAIN}"),
            _canonical_query(parts.query),
            *(f"{name}:{signed[name]}" for name in sorted(signed)),
            "",
            names,
            new[DIGEST_HEADER],
        ]
    )
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = "\n".join([_ALGORITHM, moment, scope, sha256(canonical.encode()).hexdigest()])
    signing = f"AWS4{key.secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    signature = hmac.digest(signing, text.encode(), "sha256").hex()
    credential = f"{_ALGORITHM} Credential={key.key_id}/{scope}"
    authorization = f"{credential}, SignedHeaders={names}, Signature={signature}"
    return {**new, "authorization": authorization}


def _canonical_query(query: str) -> str:
    pairs = [
        (quote(name, safe=_PLAIN), quote(value, safe=_PLAIN))
        for name, value in parse_qsl(query, keep_blank_values=True)
    ]
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))
