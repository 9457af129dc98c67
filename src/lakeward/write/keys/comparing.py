"""Compares the keys of new rows with those of other rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakeward.engines.arrow.key_hash import Hashes, key_hashes
from lakeward.engines.arrow.keys import KeyIndex as Rows
from lakeward.engines.arrow.keys import distinct, first_rows
from lakeward.model.expressions.nodes import Expression, Or
from lakeward.model.file import LoggedFile
from lakeward.model.keys import between, file_bounds
from lakeward.model.types import Field, Primitive
from lakeward.write.keys.index import KeyIndex
from lakeward.write.keys.reading import KeyReader

_SPANS: Final = 64
_FLOATS: Final = (Primitive("float"), Primitive("double"))


def hashes_of(index: KeyIndex, reader: KeyReader, file: LoggedFile) -> Hashes:
    """Return the hashes of the keys in a file, from the index if it has them."""
    known = index.recall(file.path) if file.file.deletion_vector is None else None
    if known is None:
        known = reader.hashes(file)
        if file.file.deletion_vector is None:
            index.remember(file.path, known)
    return known


def hashes_of_rows(keys: pa.Table) -> Hashes:
    """Return the hashes of keys; rows with a null have none."""
    hashes, whole = key_hashes(keys.columns)
    return hashes[whole]


def duplicates(mine: pa.Table, theirs: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Return the rows of `mine` whose key is in `theirs`, or in an earlier row of `mine`."""
    bad = np.ones(mine.num_rows, dtype=bool)
    own = [mine[c] for c in columns]
    bad[first_rows(own)] = False
    bad[Rows(distinct([theirs], columns).columns).find(own).rows] = True
    return mine.filter(pa.array(bad))


def span(new: Sequence[LoggedFile], fields: Mapping[Field, Field]) -> Expression | None:
    """Return a condition that is true for all rows with a key of the files; None if unknown."""
    if not 0 < len(new) <= _SPANS:
        return None
    # An order of floats tells -0.0 from 0.0, which are one key.
    usable = {a: b for a, b in fields.items() if a.type == b.type and a.type not in _FLOATS}
    each = [
        between({other: file_bounds(file.file, own) for own, other in usable.items()})
        for file in new
    ]
    known = [condition for condition in each if condition is not None]
    if len(known) < len(each):
        return None
    return known[0] if len(known) == 1 else Or(tuple(known))
