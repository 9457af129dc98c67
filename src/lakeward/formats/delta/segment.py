"""Lists the files of a `_delta_log` directory, and finds where its longest history starts.

Only file names are read. `_last_checkpoint` may be stale or missing, and compacted commits hold
nothing that single commits do not, so neither is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from lakeward.errors import TableNotFound
from lakeward.formats.delta.damage import damaged
from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.model.file import LIVE
from lakeward.storage.base import Storage

_COMMIT: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(
    r"(?P<version>\d{20})\.checkpoint"
    r"(?:\.(?P<part>\d{10})\.(?P<parts>\d{10})|\.(?P<uuid>[0-9A-Fa-f-]{36}))?\.(?P<kind>parquet|json)"
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint whose files all exist; `modified_ms` is the time of the newest file."""

    version: int
    paths: tuple[str, ...]
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Segment:
    """The files of a log: the times of commits by version, and the complete checkpoints, sorted."""

    location: str
    commits: dict[int, int] = field(default_factory=dict)
    checkpoints: list[Checkpoint] = field(default_factory=list)

    @property
    def version(self) -> int:
        """The newest version."""
        return max([*self.commits, *(c.version for c in self.checkpoints[-1:])])

    def starts(self) -> Iterator[Checkpoint | None]:
        """Yield the checkpoints at which the history can start, the oldest first.

        Yields None if the history starts at the commit of version 0.

        Raises `CorruptTable` if the commit of a version is missing that no checkpoint replaces.
        """
        tip, whole = self.version, self._unbroken()
        if whole == 0:
            yield None
            return
        found = [c for c in self.checkpoints if c.version >= whole - 1]
        if not found:
            raise damaged(
                self.location,
                whole - 1,
                f"the commit of version {whole - 1} is missing, though versions up to {tip} exist",
            )
        yield from found

    def _unbroken(self) -> int:
        """Return the oldest version from which every commit up to the newest exists."""
        version = self.version + 1
        while version - 1 in self.commits:
            version -= 1
        return version


def segment_of(storage: Storage, location: str) -> Segment:
    """List a table's log. Raises `TableNotFound`, `CorruptTable`."""
    commits: dict[int, int] = {}
    whole: dict[tuple[int, str], tuple[str, int]] = {}
    parts: dict[tuple[int, int], dict[int, tuple[str, int]]] = {}
    for entry in storage.listing(f"{location}/{LOG_DIRECTORY}"):
        name = entry.path.rpartition("/")[2]
        path = f"{location}/{LOG_DIRECTORY}/{name}"
        if found := _COMMIT.fullmatch(name):
            commits[_version(location, found[1])] = entry.modified_ms
        elif found := _CHECKPOINT.fullmatch(name):
            version = _version(location, found["version"])
            if found["parts"]:
                many = parts.setdefault((version, int(found["parts"])), {})
                many[int(found["part"])] = (path, entry.modified_ms)
            elif found["uuid"] or found["kind"] == "parquet":
                whole[version, name] = (path, entry.modified_ms)
    checkpoints = [Checkpoint(v, (path,), at) for (v, _), (path, at) in whole.items()]
    for (version, count), many in parts.items():
        if count > 0 and sorted(many) == list(range(1, count + 1)):
            paths = tuple(many[n][0] for n in sorted(many))
            checkpoints.append(Checkpoint(version, paths, max(at for _, at in many.values())))
    if not commits and not checkpoints:
        what = f"There is no Delta table at {location}."
        hint = f"A Delta table has a directory {LOG_DIRECTORY} with its commits."
        raise TableNotFound(what, hint=hint, table=location, location=location)
    checkpoints.sort(key=lambda c: (c.version, len(c.paths), c.paths))
    return Segment(location, commits, checkpoints)


def _version(location: str, digits: str) -> int:
    version = int(digits)
    if version >= LIVE:
        raise damaged(location, version, f"no table can have a version {version}")
    return version
