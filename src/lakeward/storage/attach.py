"""Opens the storage of a warehouse by its name, and probes an object store.

Publication depends on put-if-absent, and some stores accept a conditional put but overwrite. So the
first process that opens a warehouse puts a small file twice, and the store must refuse the second
put. The file is kept: when the warehouse is opened later, one refused put is proof enough.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeward.errors import InvalidInput, StorageError, UnsupportedFeature
from lakeward.storage.base import Storage
from lakeward.storage.local import LocalStorage
from lakeward.storage.object_store.places import AZURE, PROVIDERS, ObjectPlace

if TYPE_CHECKING:
    from lakeward.storage.object_store.storage import ObjectStorage

PROBE: Final = ".lakeward/put-if-absent"
"""The file of the probe, in a hidden directory, which readers of tables ignore."""
_PROBED: set[str] = set()
"""Warehouses that this process has probed."""


def attach(
    place: str,
    given: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    *,
    read_only: bool = False,
    probes: bool = True,
) -> Storage:
    """Open the storage of a warehouse: a directory, or `s3://`, `az://`, `abfss://`, `gs://` names.

    The environment, by default that of the process, completes the storage options. With `read_only`
    nothing is written, and the store is not probed; `probes=False` skips the probe of a store that
    is open for writing.
    """
    scheme, separator, _ = place.partition("://")
    if not separator or scheme == "file":
        if given:
            what = "A warehouse in a directory takes no storage options."
            raise InvalidInput(what)
        directory = Path(place.removeprefix("file://")).expanduser()
        if not read_only:
            return LocalStorage(directory)
        from lakeward.storage.read_only import ReadOnlyLocalStorage

        return ReadOnlyLocalStorage(directory)
    if scheme.lower() not in PROVIDERS:
        what = f"A warehouse on {scheme}:// is not built."
        raise UnsupportedFeature(what, hint="Use a directory, s3://, az://, abfss:// or gs://.")
    from lakeward.storage.object_store.options import resolve
    from lakeward.storage.object_store.storage import ObjectStorage

    root = ObjectPlace.parse(place)
    options = resolve(root.provider, given, os.environ if environment is None else environment)
    if root.provider == AZURE and root.account is None and not options.flag("use_emulator"):
        root = ObjectPlace(root.provider, root.container, root.key, options.get("account_name"))
    if read_only:
        from lakeward.storage.object_store.read_only import ReadOnlyObjectStorage

        return ReadOnlyObjectStorage(root, options)
    storage = ObjectStorage(root, options)
    known = f"{storage.root} {options.get('endpoint') or options.get('base_url')}"
    if probes and known not in _PROBED:
        probe(storage)
        _PROBED.add(known)
    return storage


def probe(storage: ObjectStorage) -> None:
    """Raise a `StorageError` unless the store can be used and supports put-if-absent.

    Read-only credentials pass, because they will never put anything.
    """
    if any(storage.is_put_refused(PROBE) for _ in range(2)):
        return
    what = f"The store of {storage.root} does not honour put-if-absent: it overwrote a file."
    hint = "Use a store that supports conditional puts (If-None-Match), or a newer version of it."
    raise StorageError(what, hint=hint, path=PROBE)
