"""Records where rows come from, for errors: which row of the data, or which line of which file.

Tables have it in the metadata of their schema, which is read only when a row does not fit. Rows are
counted from 0, as frames and lists count them, and lines from 1, as editors do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from lakeward.engines.arrow.remote import RowFile

_FIRST: Final = b"lakeward.first"
_FILE: Final = b"lakeward.file"
_UNIT: Final = b"lakeward.unit"


def numbered(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Yield consecutive tables, each marked with the number of its first row."""
    first = 0
    for table in tables:
        yield _marked(table, {_FIRST: str(first).encode()}) if first else table
        first += table.num_rows


def of_file(tables: Iterable[pa.Table], path: RowFile) -> Iterator[pa.Table]:
    """Yield tables of a file, each marked with the file and the number of its first row."""
    first = 0
    for table in tables:
        yield placed(table, path, first, "row")
        first += table.num_rows


def placed(table: pa.Table, path: RowFile, first: int, unit: str) -> pa.Table:
    """Return a table marked with its file; `first` is the number of its first `row` or `line`."""
    marks = {_FILE: str(path).encode(), _UNIT: unit.encode(), _FIRST: str(first).encode()}
    return _marked(table, marks)


def place(schema: pa.Schema, index: int) -> tuple[str, dict[str, Any]]:
    """Return where a row of a table comes from, in words and as facts of an error."""
    known = schema.metadata or {}
    number = int(known.get(_FIRST, b"0")) + index
    unit = known.get(_UNIT, b"row").decode()
    if _FILE not in known:
        return f"{unit} {number}", {"row": number}
    path = known[_FILE].decode()
    return f"{unit} {number} of {path}", {unit: number, "path": path}


def _marked(table: pa.Table, marks: dict[bytes, bytes]) -> pa.Table:
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **marks})
