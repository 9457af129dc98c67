"""Finds which rows of a change are kept, changed or new, and which changed rows keep their key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeward.engines.arrow.key_hash import key_hashes
from lakeward.engines.arrow.row_groups import POSITION
from lakeward.write.keys.changes import kinds_of, movable_files
from lakeward.write.keys.reading import PATH, KeyReader
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import Kind, Origins


def ranks(change: Change, rows: pa.Table, unknown: Kind = Kind.KEPT) -> NDArray[np.int64]:
    """Return the `Kind` of each row of added files, by its `PATH` and `POSITION`.

    `unknown` is the kind for rows in files whose origins were not recorded.
    """
    out = np.full(rows.num_rows, unknown, np.int64)
    paths = rows[PATH].to_numpy(zero_copy_only=False)
    positions = rows[POSITION].to_numpy()
    movable = movable_files(change)
    for path in dict.fromkeys(paths.tolist()):
        if path in movable or (change.origins is not None and change.origins.knows(path)):
            here = np.flatnonzero(paths == path)
            out[here] = kinds_of(change, path, positions[here].tolist())
    return out


def same_keys(
    reader: KeyReader, origins: Origins, rows: pa.Table, columns: Sequence[str]
) -> NDArray[np.bool_]:
    """Return for each changed row whether its key is the same as in the base version."""
    new, is_whole = key_hashes(rows.select(columns).columns)
    out = np.zeros(rows.num_rows, dtype=bool)
    files, positions = origins.places(rows[PATH].to_pylist(), rows[POSITION].to_pylist())
    for number in np.unique(files).tolist():
        here = np.flatnonzero(files == number)
        wanted, which = np.unique(positions[here], return_inverse=True)
        before, was_whole = key_hashes(reader.at(origins.file(number), wanted).columns)
        out[here] = (before[which] == new[here]) & was_whole[which]
    return out & is_whole
