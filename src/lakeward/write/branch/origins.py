"""Finds the origins of rows in files that another engine wrote on a branch.

The engine keeps row ids in hidden columns of the files: a row that it moved or changed keeps its
id, and a row that it changed has no version. If a later statement copies such a row, its version is
that of the branch's commit that changed it. So the old row is found and can be restored if the
changed row violates a constraint.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lakeward.engines.arrow.row_groups import POSITION
from lakeward.model.file import LoggedFile
from lakeward.model.row_ids import RowIds
from lakeward.read.scan import read_files
from lakeward.storage.base import Storage
from lakeward.write.plan.change import Change
from lakeward.write.plan.origins import NEW, Origins, changed
from lakeward.write.rows.row_ids import KeptIds

_NO_VERSION: Final = -1


def find_origins(
    storage: Storage, change: Change, ids: RowIds, earlier: range = range(0)
) -> Origins | None:
    """Return the origins of the rows in the files that a branch added to a change.

    `earlier` are the versions of the branch's commits before its last one, if a later statement may
    have copied rows that an earlier one changed; rows with one of these versions count as changed.
    A few unchanged rows of Iceberg tables can have one too, from an older branch.
    Return None if a row of the files that the branch removed has no id, or two have the same id.
    """
    found, hidden = Origins(), KeptIds(ids, ids.within(change.definition))
    base = [_of_base(storage, change, hidden, found, f) for f in change.removed.values()]
    known = np.concatenate([np.empty(0, np.int64), *(numbers for numbers, _ in base)])
    origins = np.concatenate([np.empty(0, np.int64), *(where for _, where in base)])
    order = np.argsort(known)
    known, origins = known[order], origins[order]
    if len(known) and (known[0] == NEW or (known[1:] == known[:-1]).any()):
        return None
    gone = {f.path for f in change.removed.values()}
    for number, file in enumerate(change.added):
        if file.path in gone:
            # Rows were deleted in place, and none is new.
            continue
        logged = LoggedFile(file, change.head.version + 1, number)
        positions, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for rows in _read(storage, change, hidden, logged):
            own = rows[ids.row_id]
            numbers = own.fill_null(NEW).to_numpy()
            place = np.minimum(np.searchsorted(known, numbers), max(len(known) - 1, 0))
            is_there = (known[place] == numbers) if len(known) else np.zeros(len(numbers), bool)
            was = np.where(is_there, origins[place] if len(known) else NEW, NEW)
            version = rows[ids.version].fill_null(_NO_VERSION).to_numpy()
            is_changed = (version == _NO_VERSION) | (
                (version >= earlier.start) & (version < earlier.stop)
            )
            positions.append(rows[POSITION].to_numpy())
            values.append(np.where(is_changed, changed(was), was))
        found.note(file.path, _by_position(np.concatenate(positions), np.concatenate(values)))
    return found


def _by_position(positions: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return values by position in a file, up to its last row; `NEW` for rows that are deleted."""
    out = np.full(int(positions.max(initial=-1)) + 1, NEW, np.int64)
    out[positions] = values
    return out


def _of_base(
    storage: Storage, change: Change, hidden: KeptIds, found: Origins, file: LoggedFile
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the ids and the origins of the rows of a file that the branch removed."""
    numbers, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for rows in _read(storage, change, hidden, file):
        at = rows[POSITION].to_numpy()
        whole = hidden.filled(rows.drop_columns([POSITION]), file, at)
        numbers.append(whole[hidden.names[0]].fill_null(NEW).to_numpy())
        positions.append(at)
    return np.concatenate(numbers), found.of_base(file, np.concatenate(positions))


def _read(
    storage: Storage, change: Change, hidden: KeptIds, file: LoggedFile
) -> Iterator[pa.Table]:
    """Yield the hidden columns of a file's rows, with the rows' positions."""
    reader = read_files(
        storage, change.head, hidden.definition, [file], columns=hidden.names, numbered=True
    )
    for batch in reader:
        yield pa.Table.from_batches([batch])
