"""Sources of newline-delimited JSON, from files and streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import orjson
import pyarrow as pa

from lakeward.engines.arrow.files import check_lines
from lakeward.engines.arrow.json_lines import JsonLines
from lakeward.engines.arrow.text import blocks
from lakeward.errors import InvalidInput, StorageError
from lakeward.stream.changes import CHANGE_TYPE, SEQUENCE
from lakeward.stream.source import Files, Portion, ReadOnce

_BLOCK: Final = 2**20


class JsonFiles(Files):
    """Lines of files, identified by full path; of a file that has grown, only the new part.

    A last line without newline is left out, unless it is complete JSON.
    """

    form = "json"

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Continue each file at its recorded offset."""
        self._continue(progress, "files")
        self._lines = JsonLines(schema, table)

    def portions(self) -> Iterator[Portion]:
        """Yield whole lines of each file that were not taken before, in portions."""
        for path in self._paths:
            name = str(path)
            begun = self._taken.get(name, 0)
            try:
                size = path.stat().st_size
                if size < begun:
                    what = f"{path} has {size} bytes, and {begun} were taken from it before."
                    hint = "Another file took its place. Give it another name."
                    raise InvalidInput(what, hint=hint, path=name)
                with path.open("rb") as file:
                    file.seek(begun)
                    for block in blocks(file, _BLOCK):
                        if _is_cut(block):
                            self._unfinished.append(name)
                            continue
                        if not self._taken.get(name):
                            check_lines(block, path)
                        rows = self._table(block, name)
                        self._taken[name] = self._taken.get(name, 0) + len(block)
                        yield Portion(rows, rows.num_rows, {"files": dict(self._taken)})
            except OSError as error:
                what = f"{path} cannot be read: {error.strerror}."
                raise StorageError(what, path=name) from error

    def _table(self, block: bytes, name: str) -> pa.Table:
        try:
            return given(self._lines.table(block))
        except InvalidInput as error:
            start = self._taken.get(name, 0)
            what = f"{name}, behind byte {start}: {error.what}"
            raise InvalidInput(what, hint=error.hint, path=name, line=error.line) from error


def _is_cut(block: bytes) -> bool:
    """Return whether lines are a last one without newline that is not complete JSON."""
    if block.endswith(b"\n"):
        return False
    try:
        orjson.loads(block)
    except orjson.JSONDecodeError:
        return True
    return False


class JsonStream(ReadOnce):
    """Lines of a stream that is read once."""

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Skip the committed bytes, if `replay` says that it is the same stream."""
        self._lines = JsonLines(schema, table)
        self._skip = self._to_skip(progress, "bytes")

    def portions(self) -> Iterator[Portion]:
        """Yield whole lines as they arrive, in portions."""
        left = self._skip
        while left:
            chunk = self._stream.read(min(left, _BLOCK))
            if not chunk:
                what = f"The stream ended before the {self._skip} bytes that were taken before."
                raise InvalidInput(what, hint="It is not the same stream. Leave replay out.")
            left -= len(chunk)
        self._taken = self._skip
        for block in blocks(self._stream, _BLOCK):
            try:
                rows = given(self._lines.table(block))
            except InvalidInput as error:
                what = f"Behind byte {self._taken}: {error.what}"
                raise InvalidInput(what, hint=error.hint, line=error.line) from error
            self._taken += len(block)
            yield Portion(rows, rows.num_rows, {"bytes": self._taken})


def given(rows: pa.Table) -> pa.Table:
    """Return the rows without `_change_type` and `_sequence` where these have no values."""
    absent = [
        name
        for name in (CHANGE_TYPE, SEQUENCE)
        if name in rows.column_names and rows[name].null_count == rows.num_rows
    ]
    return rows.drop_columns(absent)
