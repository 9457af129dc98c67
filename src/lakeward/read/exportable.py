"""Exports of a table, or of one of its versions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakeward.read.export import Exported, Source


class Exportable:
    """Rows of one version that can be exported as files."""

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
        storage_options: Mapping[str, str] | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Exported:
        """Export the rows as files that need no lake, with a manifest.

        Rows are streamed. The directory appears when it is complete; on an object store the
        manifest, `manifest.json`, is written last. It has the version, the columns, and the rows,
        bytes and SHA-256 of each file.

        Args:
            path: A directory that does not exist yet, or a location in an object store (`s3://…`).
            format: `parquet`, `csv`, `jsonl` or `arrow`.
            partition_by: Columns whose values name directories, `day=2026-11-15/`.
            max_rows_per_file: Begin another file after so many rows.
            columns: Names, in the order wanted; all when None.
            where: A SQL boolean expression; rows for which it is true are exported.
            storage_options: Access to the object store; the lake's own for a store of its kind, and
                the environment for others, supply what is not given.
            progress: Called with the number of rows done, and of all rows.

        Raises:
            AlreadyExists: There is something at the path.
            InvalidInput: The path is in the lake, or the format cannot hold a column.
        """
        from lakeward.read.export import export, options_of

        options = options_of(format, partition_by, max_rows_per_file, columns, where, progress)
        return export(self._snapshot(), path, options, storage_options)
