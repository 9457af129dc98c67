"""How many files are read at a time, so that a slow reader holds a bounded part of a table.

Arrow reads as far ahead as it can, however slowly rows are taken. So it gets as many files at a
time as have about so many bytes in memory. Rows are about three times as large there as in files,
and not smaller than their values, which files may repeat in very few bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakeward.model.file import LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.types import stored_field_type

_BYTES_AT_ONCE: Final = 128 << 20
_TIMES_IN_MEMORY: Final = 3
_TEXT_BYTES: Final = 16
"""A guess of the bytes of a value whose type does not determine them."""
_SAMPLED: Final = 100


def files_at_once(files: Sequence[LoggedFile], schema: Schema, names: Sequence[str]) -> int:
    """Return how many of the files are read at a time, for these columns; at least one."""
    if len(files) < 2:
        return 1
    some, fields = files[:_SAMPLED], schema.by_name
    width = sum(_width(stored_field_type(fields[n])) for n in names if n in fields)
    held = sum(max(_TIMES_IN_MEMORY * f.size, width * (f.rows or 0)) for f in some)
    return 1 + _BYTES_AT_ONCE * len(some) // (1 + held)


def _width(kind: pa.DataType) -> int:
    if pa.types.is_struct(kind):
        return sum(_width(part.type) for part in kind)
    try:
        return 1 + int(kind.bit_width) // 8
    except ValueError:
        return _TEXT_BYTES
