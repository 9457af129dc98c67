"""Decides which of several new rows with the same unique key stays.

Rows are admitted in an order: rows that keep their keys first, then changed rows, then new rows. A
row that is kept out because of one key takes no other key either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeward.engines.arrow.keys import KeyIndex, distinct
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.write.keys.comparing import duplicates
from lakeward.write.keys.reading import PATH

_Place: TypeAlias = tuple[int, int]
"""The index of a file, and the position of a row in it."""


@dataclass(frozen=True)
class Claims:
    """Rows that may violate one unique key.

    Attributes:
        columns: The columns of the key.
        rows: The new rows, with `PATH` and `POSITION`, in the order in which they are admitted.
        ranks: For each of these rows what the transaction did to it, in regard to the key.
        theirs: Rows that stay in the table and may have the same keys.
    """

    columns: tuple[str, ...]
    rows: pa.Table
    ranks: NDArray[np.int64]
    theirs: pa.Table

    def violating(self) -> pa.Table:
        """Return the rows that violate the key if all other rows are admitted."""
        return duplicates(self.rows, self.theirs, self.columns)

    def numbers(self) -> tuple[list[int], set[int]]:
        """Return a number for the key of each row, and the numbers of keys that `theirs` have."""
        keys = distinct([self.rows], self.columns)
        found = KeyIndex(keys.columns).find([self.rows[c] for c in self.columns]).partners
        theirs = KeyIndex(distinct([self.theirs], self.columns).columns)
        return found.tolist(), set(theirs.find([keys[c] for c in self.columns]).rows.tolist())


def rejected(claims: Mapping[str, Claims], files: Mapping[str, int]) -> dict[str, pa.Table]:
    """Return the rows that are kept out, by the name of the first key that they violate.

    `files` has the order of the files, by path.
    """
    if len(claims) < 2:
        return {name: one.violating() for name, one in claims.items()}
    taken: dict[str, set[int]] = {}
    wanted: dict[_Place, dict[str, tuple[int, int]]] = {}
    ranks: dict[_Place, int] = {}
    for name, one in claims.items():
        numbers, taken[name] = one.numbers()
        paths, positions = one.rows[PATH].to_pylist(), one.rows[POSITION].to_pylist()
        for row, (path, position) in enumerate(zip(paths, positions, strict=True)):
            place = (files[path], position)
            wanted.setdefault(place, {})[name] = (row, numbers[row])
            ranks[place] = max(ranks.get(place, 0), int(one.ranks[row]))
    out: dict[str, list[int]] = {name: [] for name in claims}
    for place in sorted(wanted, key=lambda p: (ranks[p], p)):
        keys = wanted[place]
        broken = next((n for n, (_, number) in keys.items() if number in taken[n]), None)
        if broken is not None:
            out[broken].append(keys[broken][0])
            continue
        for own, (_, number) in keys.items():
            taken[own].add(number)
    return {name: claims[name].rows.take(pa.array(rows, pa.int64())) for name, rows in out.items()}
