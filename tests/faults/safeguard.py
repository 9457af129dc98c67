"""What a safeguard is, for the lists of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """A change of the source."""

    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Safeguard:
    """Something that keeps a promise, how to remove it, and the tests that must notice."""

    what: str
    edits: tuple[Edit, ...]
    tests: str
    only: str = ""
    size: str = "not full"
