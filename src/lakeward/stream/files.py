"""Rows of Parquet and CSV files, of compressed text and of object stores, counted by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.context import HasContext, context_of
from lakeward.engines.arrow.files import file_rows, format_of, paths_of
from lakeward.engines.arrow.remote import RowFile
from lakeward.errors import InvalidInput
from lakeward.stream.ipc import ArrowFiles
from lakeward.stream.lines import JsonFiles, given
from lakeward.stream.source import Files, Portion
from lakeward.write.stage.remote_files import located


class RowFiles(Files):
    """Rows of files that were not taken before; a file is identified by its full path.

    If a file has grown, it is read from its beginning and the rows taken before are skipped.
    """

    def __init__(self, paths: Sequence[RowFile], form: str) -> None:
        super().__init__(())
        self._files = [p.expanduser().absolute() if isinstance(p, Path) else p for p in paths]
        self._form = form

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Continue each file after the rows that were taken."""
        self._continue(progress, "rows")
        self._schema, self._table = schema, table

    def portions(self) -> Iterator[Portion]:
        """A part of a file each."""
        for path in self._files:
            name, seen = str(path), 0
            for part in file_rows(path, self._schema, self._table, self._form):
                taken = self._taken.get(name, 0)
                rows = part.slice(max(0, min(taken - seen, part.num_rows)))
                seen += part.num_rows
                if rows.num_rows:
                    self._taken[name] = seen
                    yield Portion(given(rows), rows.num_rows, {"rows": dict(self._taken)})
            if seen < self._taken.get(name, 0):
                what = f"{path} has {seen} rows, and {self._taken[name]} were taken from it before."
                hint = "Another file took its place. Give it another name."
                raise InvalidInput(what, hint=hint, path=name)


def files_source(given_paths: list[str], form: str | None, lake: HasContext) -> Files:
    """The source of files by paths, addresses and patterns, of one format."""
    storage = context_of(lake).storage
    paths = [path for one in given_paths for path in paths_of(located(one, storage))]
    formats = {form or format_of(path) for path in paths}
    if len(formats) > 1:
        what = f"The files are named for different formats: {', '.join(sorted(formats))}."
        raise InvalidInput(what, hint="Run the command once for each, or give --format.")
    (found,) = formats
    compressed = any(p.suffix.lower() in (".gz", ".bz2", ".zst", ".lz4") for p in paths)
    local = [path for path in paths if isinstance(path, Path)]
    if len(local) < len(paths):
        return RowFiles(paths, found)
    if found == "arrow":
        return ArrowFiles(local)
    if found == "json" and not compressed:
        return JsonFiles(local)
    return RowFiles(local, found)
