"""Opens files in object stores whose addresses a user gives as data.

The lake's own storage and its options are used if they can access the address; any other store is
opened with the options of `lw.Files`, or with those of the environment. Nothing is written, not
even to test the store.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from lakeward.engines.arrow.remote import RemoteFile, RemoteFiles
from lakeward.errors import InvalidInput, NotFound, UnsupportedFeature
from lakeward.model.addressed import Files
from lakeward.storage.attach import attach
from lakeward.storage.base import Storage
from lakeward.storage.object_store.places import PROVIDERS, ObjectPlace

_MAGIC: Final = re.compile(r"[*?[]")


def located(data: Any, storage: Storage) -> Any:
    """Replace addresses of files in an object store by objects that read them.

    Data that is no address is returned unchanged.
    Raises `NotFound` if there is no such file, and `StorageError` if the store cannot be accessed.
    """
    if isinstance(data, Files):
        return _found(data.place, storage, data.storage_options)
    if isinstance(data, str) and is_address(data):
        return _found(data, storage, {})
    several = isinstance(data, list | tuple) and data
    if several and all(isinstance(item, str | Path | Files) for item in data):
        return [located(item, storage) for item in data]
    return data


def is_address(data: Any) -> bool:
    """Return whether a value is the address of a file in an object store."""
    return isinstance(data, str) and data.partition("://")[0].lower() in PROVIDERS and "://" in data


def _found(address: str, storage: Storage, options: Mapping[str, str]) -> RemoteFiles:
    if not is_address(address):
        what = f"{address} is not an address on an object store."
        raise InvalidInput(what, hint="Use s3://, az://, abfss:// or gs://.", path=address)
    if address.endswith("/"):
        what = f"{address} is a directory."
        raise InvalidInput(what, hint=f"Name its files: {address}*.parquet.", path=address)
    magic = _MAGIC.search(address)
    plain = address if magic is None else address[: address.rindex("/", 0, magic.start())]
    store = _store_of(plain, storage, options)
    start = store.path_of(plain)
    if magic is None:
        names = [start] if store.exists(start) else []
    else:
        pattern = address[len(plain) + 1 :]
        deep = "/" in pattern or "**" in pattern
        below = (f.path for f in store.listing(start, recursive=deep))
        wanted = pattern.split("/")
        names = [n for n in below if _matches(n[len(start) + 1 :].split("/"), wanted)]
    if not names:
        what = f"There is no file {address}." if magic is None else f"No file matches {address}."
        raise NotFound(what, path=address)
    filesystem, _ = store.arrow_filesystem(foreign=True)
    return RemoteFiles(tuple(RemoteFile(name, filesystem) for name in sorted(names)))


def _store_of(place: str, storage: Storage, options: Mapping[str, str]) -> Storage:
    """Return the lake's storage if it can access the address, else a storage for its store."""
    if storage.is_remote and not options:
        try:
            storage.path_of(place)
        except UnsupportedFeature:
            pass
        else:
            return storage
    bucket = ObjectPlace.parse(place)
    root = ObjectPlace(bucket.provider, bucket.container, "", bucket.account)
    return attach(root.uri(), options, read_only=True)


def _matches(parts: list[str], pattern: list[str]) -> bool:
    """Return whether a path matches a pattern, both split at `/`; `**` is any number of parts."""
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_matches(parts[n:], pattern[1:]) for n in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
