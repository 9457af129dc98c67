"""The settings of the cache of files on object stores; cached parts are read without a request."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeward.errors import InvalidInput
from lakeward.model import arguments


@dataclass(frozen=True, slots=True)
class Cache:
    """How much of data files on an object store is cached locally: footers and parts of columns.

    Attributes:
        memory: Bytes in the memory of this process; 0 keeps nothing there.
        directory: A directory on a local disk, which several processes may share; None for none.
        disk: Bytes that the files in the directory may take.
    """

    memory: int = 128 * 2**20
    directory: str | Path | None = None
    disk: int = 2 * 2**30

    def __post_init__(self) -> None:
        arguments.whole(self.memory, "memory")
        arguments.whole(self.disk, "disk", least=1)
        if self.directory is not None:
            arguments.place(self.directory, "directory")


def cache_asked(given: Any) -> Cache | None:
    """Return the settings for the `cache` argument of `lakeward.open`; None for no cache."""
    if given is None or given is True:
        return Cache()
    if given is False:
        return None
    if isinstance(given, Cache):
        return given
    what = f"`cache` must be a Cache, True or False, not {given!r}."
    raise InvalidInput(what, hint="Write cache=lw.Cache(memory=2**28).", parameter="cache")
