"""Sorted hashes of the keys of some data files, in memory and as a file.

A run lists the hashes of the rows of each file, including deleted rows. Files never change, so a
run never becomes wrong; whether a file belongs to a version is checked elsewhere.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from lakeward.engines.arrow.key_hash import Hashes

_MAGIC: Final = b"LWKEYS01"
_LENGTH: Final = 8


@dataclass(frozen=True)
class Run:
    """The hashes of the keys of some files.

    Attributes:
        paths: The paths of the files.
        hashes: The hashes, ascending.
        which: For each hash, the index of its file in `paths`.
    """

    paths: tuple[str, ...]
    hashes: Hashes
    which: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, path: str, hashes: Hashes) -> Run:
        """Return the run of one file."""
        return cls((path,), np.sort(hashes), np.zeros(len(hashes), dtype=np.uint32))

    def find(self, wanted: Hashes) -> dict[str, Hashes]:
        """Return, for each file that has some of the hashes, those hashes."""
        if not len(self.hashes):
            return {}
        first = np.searchsorted(self.hashes, wanted)
        there = self.hashes[np.minimum(first, len(self.hashes) - 1)] == wanted
        if not there.any():
            return {}
        low, found = first[there], wanted[there]
        counts = np.searchsorted(self.hashes, found, side="right") - low
        starts = np.repeat(low, counts)
        places = starts + np.arange(len(starts)) - np.repeat(np.cumsum(counts) - counts, counts)
        files = self.which[places]
        hashes = np.repeat(found, counts)
        return {self.paths[n]: np.unique(hashes[files == n]) for n in np.unique(files)}

    def to_bytes(self, header: dict[str, Any]) -> bytes:
        """Return the run as a file's content; `header` has further facts to store."""
        body = self.hashes.tobytes() + self.which.tobytes()
        facts = {**header, "paths": self.paths, "rows": len(self.hashes), "crc": zlib.crc32(body)}
        head = orjson.dumps(facts)
        # NumPy copies an array that begins inside a word before it searches it.
        head += b" " * (-len(head) % _LENGTH)
        return b"".join([_MAGIC, len(head).to_bytes(_LENGTH, "little"), head, body])

    @classmethod
    def from_bytes(cls, data: bytes) -> tuple[dict[str, Any], Run] | None:
        """Return the header and the run of a file's content; None if it is damaged."""
        start = len(_MAGIC) + _LENGTH
        if data[: len(_MAGIC)] != _MAGIC:
            return None
        end = start + int.from_bytes(data[len(_MAGIC) : start], "little")
        try:
            header: dict[str, Any] = orjson.loads(data[start:end])
        except orjson.JSONDecodeError:
            return None
        count = header["rows"]
        if len(data) != end + 12 * count or zlib.crc32(memoryview(data)[end:]) != header["crc"]:
            return None
        hashes = np.frombuffer(data, dtype=np.uint64, count=count, offset=end)
        which = np.frombuffer(data, dtype=np.uint32, count=count, offset=end + 8 * count)
        return header, cls(tuple(header["paths"]), hashes, which)


def merged(runs: Sequence[Run]) -> Run:
    """Return one run with the hashes of several runs."""
    if len(runs) == 1:
        return runs[0]
    hashes = np.concatenate([run.hashes for run in runs])
    firsts = np.cumsum([0, *(len(run.paths) for run in runs)])
    moved = [run.which + np.uint32(first) for run, first in zip(runs, firsts[:-1], strict=True)]
    # Sorted parts are merged by a stable sort, without sorting them again.
    order = np.argsort(hashes, kind="stable")
    paths = tuple(path for run in runs for path in run.paths)
    return Run(paths, hashes[order], np.concatenate(moved)[order])
