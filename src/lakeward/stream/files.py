"""Rows of files in Parquet, CSV, compressed text or object stores, with positions in rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakeward.context import HasContext, context_of
from lakeward.engines.arrow.files import file_rows, format_of, paths_of
from lakeward.engines.arrow.growing_csv import GrowingCsv
from lakeward.engines.arrow.remote import RowFile
from lakeward.errors import InvalidInput
from lakeward.stream.ipc import ArrowFiles
from lakeward.stream.lines import JsonFiles, given
from lakeward.stream.source import Files, Portion
from lakeward.write.stage.remote_files import located


class RowFiles(Files):
    """Rows of files that were not taken before; a file is identified by its full path.

    If a file has grown, it is read from its beginning and the rows taken before are skipped. Of a
    CSV file that ends within a line, this line is left out: it may be incomplete.
    """

    def __init__(self, paths: Sequence[RowFile], form: str) -> None:
        super().__init__(())
        self._files = [p.expanduser().absolute() if isinstance(p, Path) else p for p in paths]
        self.form = form

    @property
    def files(self) -> Sequence[RowFile]:
        """The files, in the order in which they are read."""
        return self._files

    def start(self, progress: Any, schema: pa.Schema, table: str) -> None:
        """Continue each file after the rows that were committed."""
        self._continue(progress, "rows")
        self._schema, self._table = schema, table

    def portions(self) -> Iterator[Portion]:
        """Yield the rows of each file that were not taken before, in portions."""
        for path in self._files:
            name, seen = str(path), 0
            growing = None
            if self.form == "csv" and isinstance(path, Path) and not _is_compressed(path):
                growing = GrowingCsv(path)
                parts = growing.rows(self._schema, self._table)
            else:
                parts = file_rows(path, self._schema, self._table, self.form)
            for part in parts:
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
            if growing is not None and not growing.is_finished:
                self._unfinished.append(name)


def _is_compressed(path: RowFile) -> bool:
    return path.suffix.lower() in (".gz", ".bz2", ".zst", ".lz4")


def files_source(given_paths: list[str], form: str | None, lake: HasContext) -> Files:
    """Return the source for files of one format, given by paths, URLs and patterns."""
    storage = context_of(lake).storage
    paths = [path for one in given_paths for path in paths_of(located(one, storage))]
    formats = {form or format_of(path) for path in paths}
    if len(formats) > 1:
        what = f"The files are named for different formats: {', '.join(sorted(formats))}."
        raise InvalidInput(what, hint="Run the command once for each, or give --format.")
    (found,) = formats
    compressed = any(map(_is_compressed, paths))
    local = [path for path in paths if isinstance(path, Path)]
    if len(local) < len(paths):
        return RowFiles(paths, found)
    if found == "arrow":
        return ArrowFiles(local)
    if found == "json" and not compressed:
        return JsonFiles(local)
    return RowFiles(local, found)
