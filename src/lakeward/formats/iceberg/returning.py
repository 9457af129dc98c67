"""Files of an older snapshot that a commit adds again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Returning:
    """Files of an older snapshot that a commit adds again.

    Attributes:
        entries: Pairs of a manifest and entries of data files of the same partition spec.
        paths: The full paths of the entries' files.
        whole: All manifests of the older snapshot, if they are reused unchanged.
        totals: Totals of the older snapshot's summary, which are valid again in that case.
    """

    entries: Sequence[tuple[Any, Sequence[Any]]] = ()
    paths: frozenset[str] = frozenset()
    whole: Sequence[Any] | None = None
    totals: Mapping[str, str] = field(default_factory=dict)
