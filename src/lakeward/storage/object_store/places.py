"""Full names of files on object stores, parsed so that equivalent names compare equal.

`s3a://bucket/key` equals `s3://bucket/key`, and so on. Keys are never URL-decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeward.errors import InvalidInput

S3: Final = "s3"
AZURE: Final = "azure"
GCS: Final = "gcs"
PROVIDERS: Final = {
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "az": AZURE,
    "azure": AZURE,
    "abfs": AZURE,
    "abfss": AZURE,
    "wasb": AZURE,
    "wasbs": AZURE,
    "gs": GCS,
    "gcs": GCS,
}
"""The provider of each scheme; the extra that installs its library has the same name."""


@dataclass(frozen=True, slots=True)
class ObjectPlace:
    """A file or directory on an object store.

    The key has no slash at either end and is empty for the bucket (Azure: container) itself. The
    account is that of Azure, if the name contains it.
    """

    provider: str
    container: str
    key: str
    account: str | None = None

    @classmethod
    def parse(cls, name: str) -> ObjectPlace:
        """Parse a full name.

        Raises `InvalidInput` if it is of no known store or has credentials in it.
        """
        scheme, separator, rest = name.partition("://")
        provider = PROVIDERS.get(scheme.lower())
        if not separator or provider is None:
            what = f"{scheme}:// is no object store that is known."
            raise InvalidInput(what, hint="Use s3://, az://, abfss:// or gs://.")
        authority, _, key = rest.partition("/")
        container, at, host = authority.partition("@")
        if at and (provider != AZURE or ":" in container):
            # Elsewhere the part before an @ is a password, which an error must not quote.
            what = f"A {scheme}:// place takes no credentials in its name."
            raise InvalidInput(what, hint="Give them as storage options or in the environment.")
        if not container or any(c in container for c in "?#%\\ "):
            what = f"The {scheme}:// place names no bucket."
            raise InvalidInput(what, hint=f"Write {scheme}://bucket/prefix.")
        return cls(provider, container, plain_key(key), host.partition(".")[0] or None)

    def uri(self) -> str:
        """Return the full name, with the scheme that every engine supports."""
        if self.provider == S3:
            base = f"s3://{self.container}"
        elif self.provider == GCS:
            base = f"gs://{self.container}"
        elif self.account is None:
            base = f"az://{self.container}"
        else:
            base = f"abfss://{self.container}@{self.account}.dfs.core.windows.net"
        return f"{base}/{self.key}" if self.key else base

    def below(self, path: str) -> ObjectPlace:
        """Return the place of a path below this place."""
        key = "/".join(part for part in (self.key, plain_key(path)) if part)
        return ObjectPlace(self.provider, self.container, key, self.account)

    def path_from(self, root: ObjectPlace) -> str | None:
        """Return the path from `root` to this place; None if this place is not below `root`."""
        if (self.provider, self.container) != (root.provider, root.container):
            return None
        if None not in (self.account, root.account) and self.account != root.account:
            return None
        if not root.key or self.key == root.key:
            return self.key[len(root.key) :]
        before = f"{root.key}/"
        return self.key.removeprefix(before) if self.key.startswith(before) else None


def plain_key(key: str) -> str:
    """Return a key without slashes at its ends.

    Raises `InvalidInput` if it has `..` or empty parts.
    """
    plain = key.strip("/")
    if plain and any(part in ("", ".", "..") for part in plain.split("/")):
        what = f"The path {key!r} climbs out of the warehouse, or has empty parts."
        raise InvalidInput(what, hint="Use a plain path below the warehouse.", path=key)
    return plain
