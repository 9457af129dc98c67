"""A warehouse opened: its kind found by its name, its options resolved, its promises probed.

Publication depends on put-if-absent, and some stores accept a conditional put and do not honour it.
So the first to open a warehouse puts a small file twice, and the second time must be refused. The
file stays: for everybody who comes later one refused put shows the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from lakeward.errors import InvalidInput, StorageError, UnsupportedFeature
from lakeward.storage.base import Storage
from lakeward.storage.local import LocalStorage
from lakeward.storage.objects import ObjectStorage
from lakeward.storage.options import resolve
from lakeward.storage.places import AZURE, PROVIDERS, ObjectPlace

PROBE: Final = ".lakeward/put-if-absent"
"""Hidden from readers of tables, as every directory is that begins with a dot."""
_PROBED: set[str] = set()
"""Warehouses that this process has probed."""


def attach(
    place: str, given: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> Storage:
    """The storage of a warehouse, seen to keep its promises.

    Args:
        place: A directory, or `s3://`, `az://`, `abfss://`, `gs://` and a bucket and prefix.
        given: Storage options of an object store.
        environment: Completes them; the process's own unless given.

    Raises:
        InvalidInput: The place or an option makes no sense.
        MissingExtra: The library for object stores is not installed.
        StorageError: The store cannot be reached, or does not honour put-if-absent.
    """
    scheme, separator, _ = place.partition("://")
    if not separator or scheme == "file":
        if given:
            what = "A warehouse in a directory takes no storage options."
            raise InvalidInput(what)
        return LocalStorage(Path(place.removeprefix("file://")).expanduser())
    if scheme.lower() not in PROVIDERS:
        what = f"A warehouse on {scheme}:// is not built."
        raise UnsupportedFeature(what, hint="Use a directory, s3://, az://, abfss:// or gs://.")
    root = ObjectPlace.parse(place)
    options = resolve(root.provider, given, os.environ if environment is None else environment)
    if root.provider == AZURE and root.account is None and not options.flag("use_emulator"):
        root = ObjectPlace(root.provider, root.container, root.key, options.get("account_name"))
    storage = ObjectStorage(root, options)
    known = f"{storage.root} {options.get('endpoint') or options.get('base_url')}"
    if known not in _PROBED:
        probe(storage)
        _PROBED.add(known)
    return storage


def probe(storage: ObjectStorage) -> None:
    """See that a store can be used and that it honours put-if-absent.

    Credentials that may only read pass: they will never put anything.

    Raises:
        StorageError: It cannot be reached or used, or it does not honour put-if-absent.
    """
    if any(storage.is_put_refused(PROBE) for _ in range(2)):
        return
    what = f"The store of {storage.root} does not honour put-if-absent: it overwrote a file."
    hint = "Use a store that supports conditional puts (If-None-Match), or a newer version of it."
    raise StorageError(what, hint=hint, path=PROBE)
