"""The method `export`, for tables and for their versions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.model.parameters import Params, where_text

if TYPE_CHECKING:
    from lakeward.read.export import Exported, Source


class Exportable:
    """A base class for the rows of one version, which can be exported as files."""

    __slots__ = ()

    @abstractmethod
    def _snapshot(self) -> Source:
        """Return the version to export."""

    def export(
        self,
        path: str | Path,
        *,
        format: str = "parquet",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        max_rows_per_file: int | None = None,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        params: Params | None = None,
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Exported:
        """Export the rows as files that need no lake, with a manifest.

        Rows are streamed. The directory appears when it is complete; on an object store the
        manifest, `manifest.json`, is written last. The manifest has the version, the columns, and
        the rows, bytes and SHA-256 of each file.

        Args:
            path: A directory that does not exist yet, or a location in an object store (`s3://…`).
            format: `parquet`, `csv`, `jsonl` or `arrow`.
            partition_by: Columns whose values become directories, such as `day=2026-11-15/`.
            max_rows_per_file: The largest number of rows in a file; no limit when None.
            columns: The names of columns to export, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are exported.
            params: Values for `:name`, by name, or for `?`, in order.
            storage_options: Options to access the object store; by default those of the lake, for a
                store of the same kind, or those of the environment.
            progress: Called with the number of rows exported, and of all rows if known.

        Raises:
            AlreadyExists: The path exists already.
            InvalidInput: The path is in the lake, or the format cannot hold a column.
        """
        from lakeward.read.export import export, options_of

        condition = where_text(where, params)
        options = options_of(format, partition_by, max_rows_per_file, columns, condition, progress)
        return export(self._snapshot(), path, options, storage_options)
