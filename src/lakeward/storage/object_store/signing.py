"""Signs S3 requests of clients that have no credentials of their own.

A request is signed only if all of it is understood: it goes to the store of the warehouse, and its
method, parameters and headers are those of an operation that reads, lists, writes or deletes named
objects. The caller decides by `S3Request.touches` whether the client may do that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from html import unescape
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from lakeward.errors import InvalidInput
from lakeward.storage.object_store.options import StorageOptions
from lakeward.storage.object_store.places import S3, ObjectPlace, plain_key
from lakeward.storage.object_store.sigv4 import DIGEST_HEADER, UNSIGNED, Key, signature_headers

_HEADERS: Final = re.compile(
    r"x-amz-(date|content-sha256|decoded-content-length|trailer|te|user-agent|request-payer"
    r"|expected-bucket-owner|storage-class|sdk-checksum-algorithm|checksum-[a-z0-9-]+"
    r"|server-side-encryption[a-z0-9-]*|meta-[a-z0-9_-]+)"
)
"""The `x-amz-` headers that are signed: none that copies an object, or changes its access."""
_DIGEST: Final = re.compile(rf"[0-9a-f]{{64}}|{UNSIGNED}|STREAMING-UNSIGNED-PAYLOAD-TRAILER")
_LISTING: Final = frozenset(
    {
        "list-type",
        "prefix",
        "delimiter",
        "continuation-token",
        "start-after",
        "max-keys",
        "encoding-type",
        "fetch-owner",
    }
)
_OPERATIONS: Final = {
    ("GET", frozenset()): "read",
    ("HEAD", frozenset()): "read",
    ("PUT", frozenset()): "write",
    ("PUT", frozenset({"partNumber", "uploadId"})): "write",
    ("POST", frozenset({"uploads"})): "write",
    ("POST", frozenset({"uploadId"})): "write",
    ("GET", frozenset({"uploadId"})): "read",
    ("DELETE", frozenset({"uploadId"})): "write",
    ("DELETE", frozenset()): "delete",
}
"""What a request for an object does, by its method and the names of its parameters."""
_KEY_TAG: Final = re.compile(r"<Key>([^<]*)</Key>")


class Action(Enum):
    """What a request does with objects."""

    READ = "read"
    LIST = "list"
    WRITE = "write"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class S3Request:
    """A request that a client wants to send.

    Attributes:
        method: Its method, in upper case.
        uri: Its complete address.
        headers: Its headers, by names in lower case.
        region: The region that the client signs for.
        action: What it does.
        touches: The full names of the objects that it concerns; for a list, the prefix, which ends
            with a slash.
    """

    method: str
    uri: str
    headers: Mapping[str, str]
    region: str
    action: Action
    touches: tuple[str, ...]


class Signer:
    """Signs requests to an S3 store with the key of the warehouse."""

    def __init__(self, options: StorageOptions, bucket: str) -> None:
        key, secret = options.get("access_key_id"), options.get("secret_access_key")
        assert key is not None  # noqa: S101  as `signer_of` checked
        assert secret is not None  # noqa: S101  as `signer_of` checked
        self._key = Key(key, secret, options.get("session_token"))
        self._region = str(options.get("region"))
        self._endpoint = options.get("endpoint")
        self._bucket = bucket

    def client_settings(self) -> dict[str, str]:
        """Return the settings with which Iceberg clients reach the store, without credentials."""
        found = {"s3.region": self._region, "client.region": self._region}
        if self._endpoint is not None:
            found |= {"s3.endpoint": self._endpoint, "s3.path-style-access": "true"}
        return found

    def understood(
        self, method: str, uri: str, headers: Mapping[str, str], body: str | None
    ) -> S3Request:
        """Return what a request does.

        Raises:
            InvalidInput: It goes elsewhere, or has a method, parameter or header that is not known.
        """
        lowered = {name.lower(): value for name, value in headers.items()}
        _check_headers(lowered)
        bucket, key = self._object_of(uri)
        pairs = parse_qsl(urlsplit(uri).query, keep_blank_values=True)
        given = dict(pairs)
        # The AWS SDKs name the operation; S3 ignores it.
        given.pop("x-id", None)
        if len(dict(pairs)) != len(pairs):
            raise _not_known(has="a parameter that is given twice")
        action, keys = _operation(method, key, given, lowered, body)
        touches = tuple(f"s3://{bucket}/{name}" for name in keys)
        return S3Request(method, uri, lowered, self._region, action, touches)

    def signed(self, request: S3Request, now: datetime | None = None) -> dict[str, str]:
        """Return the headers that sign a request, without those that it has already."""
        moment = now or datetime.now(UTC)
        new = signature_headers(
            self._key, request.region, request.method, request.uri, request.headers, moment
        )
        return {name: value for name, value in new.items() if request.headers.get(name) != value}

    def _object_of(self, uri: str) -> tuple[str, str]:
        """Return the bucket and the key of an address; raise `InvalidInput` for another store."""
        try:
            parts = urlsplit(uri)
            path = unquote(parts.path, errors="strict")
        except ValueError as error:
            raise _not_known(has="an address that is none") from error
        is_plain = uri.isascii() and uri.isprintable() and " " not in uri
        # In a query, stores take a plus sign for itself or for a space.
        if not is_plain or "@" in parts.netloc or "#" in uri or "+" in parts.query:
            raise _not_known(has="an address that is none")
        for scheme, host in self._hosts():
            if (parts.scheme, parts.netloc.lower()) == (scheme, host):
                bucket, _, key = path.removeprefix("/").partition("/")
                break
            if (parts.scheme, parts.netloc.lower()) == (scheme, f"{self._bucket}.{host}"):
                bucket, key = self._bucket, path.removeprefix("/")
                break
        else:
            raise _not_known(has="an address of another store")
        if not re.fullmatch(r"[A-Za-z0-9.-]+", bucket) or key != plain_key(key):
            raise _not_known(has="an address that is none")
        return bucket, key

    def _hosts(self) -> list[tuple[str, str]]:
        if self._endpoint is not None:
            parts = urlsplit(self._endpoint)
            return [(parts.scheme, parts.netloc.lower())]
        named = (f"s3.{self._region}.amazonaws.com", "s3.amazonaws.com")
        return [("https", host) for host in named]


def signer_of(options: StorageOptions, place: ObjectPlace) -> Signer | None:
    """Return the signer of a warehouse; None unless it is on S3 and has an access key."""
    if place.provider != S3 or options.flag("skip_signature"):
        return None
    if options.get("access_key_id") is None or options.get("secret_access_key") is None:
        return None
    return Signer(options, place.container)


def _operation(
    method: str, key: str, given: Mapping[str, str], headers: Mapping[str, str], body: str | None
) -> tuple[Action, list[str]]:
    """Return what a request does, and the keys of the objects that it concerns."""
    if key:
        found = _OPERATIONS.get((method, frozenset(given)))
        if found is None:
            raise _not_known(has="an operation that is not known")
        return Action(found), [key]
    if method == "GET" and set(given) <= _LISTING and "prefix" in given:
        prefix = given["prefix"]
        if not prefix.endswith("/") or prefix[:-1] != plain_key(prefix[:-1]):
            raise _not_known(has="a list of a prefix that does not end with a slash")
        return Action.LIST, [prefix]
    if method == "POST" and set(given) == {"delete"}:
        return Action.DELETE, _deleted_keys(headers, body)
    raise _not_known(has="an operation on a bucket")


def _deleted_keys(headers: Mapping[str, str], body: str | None) -> list[str]:
    """Return the keys in the body of a request to delete several objects.

    The digest of the body is signed, so that no other body can be sent.
    """
    if body is None or headers.get(DIGEST_HEADER) != sha256(body.encode()).hexdigest():
        raise _not_known(has="no body whose digest is in x-amz-content-sha256")
    keys = [unescape(text) for text in _KEY_TAG.findall(body)]
    # A form of XML that this expression does not find would hide a key.
    if "<!" in body or "Version" in body or not keys or body.count("Key") != 2 * len(keys):
        raise _not_known(has="a body that is not a plain list of keys")
    if any(key != plain_key(key) for key in keys):
        raise _not_known(has="a key that is none")
    return keys


def _check_headers(headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if name.startswith("x-amz-") and not _HEADERS.fullmatch(name):
            raise _not_known(has=f"the header {name[:60]}")
        if not value.isprintable():
            raise _not_known(has="a header that is none")
    if not _DIGEST.fullmatch(headers.get(DIGEST_HEADER, UNSIGNED)):
        raise _not_known(has="a header x-amz-content-sha256 that is not known")


def _not_known(*, has: str) -> InvalidInput:
    return InvalidInput(f"The request to sign has {has}.")
