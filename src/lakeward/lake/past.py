"""How long a table's versions can be read, and exports of its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.read.snapshot import TableSnapshot

if TYPE_CHECKING:
    from lakeward.model.lineage.graph import Lineage
    from lakeward.read.export import Exported
    from lakeward.read.retention import Retention


class Past:
    """Exports a table, and returns which of its versions can be read."""

    _context: LakeContext

    @abstractmethod
    def at(self) -> TableSnapshot:
        """Return the table at its newest version."""

    @abstractmethod
    def _head(self) -> Head: ...

    def lineage(
        self,
        *,
        direction: str = "upstream",
        depth: int | None = None,
        column: str | None = None,
        version: int | None = None,
    ) -> Lineage:
        """Where the table's rows come from, or which tables have rows of it, over all steps.

        The answer has edges between tables and files, and between columns where these are known;
        `tree()`, `to_mermaid()` and `to_html()` show it. What is not known is an edge of the kind
        `unknown`.

        Args:
            direction: `upstream` for sources, `downstream` for what comes from it.
            depth: At most so many steps; all unless given.
            column: Only what this column depends on, or what depends on it.
            version: For `upstream`, only commits up to this version, and sources as they were.

        Raises:
            InvalidInput: There is no such direction or column.
        """
        from lakeward.read.lineage import DOWNSTREAM, UPSTREAM, table_lineage

        if direction not in (UPSTREAM, DOWNSTREAM):
            what = f"{direction!r} is no direction."
            raise InvalidInput(what, hint=f"Use {UPSTREAM} or {DOWNSTREAM}.")
        return table_lineage(
            self._context,
            self._head(),
            direction=direction,
            depth=None if depth is None else arguments.whole(depth, "depth"),
            column=arguments.optional_text(column, "column"),
            version=None if version is None else arguments.whole(version, "version"),
        )

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
        """Export the current rows as files that need no lake, with a manifest.

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
            storage_options: Access to the object store; the environment supplies missing options.
            progress: Called with the number of rows done, and of all rows.

        Raises:
            AlreadyExists: There is something at the path.
            InvalidInput: The path is in the lake, or the format cannot hold a column.
        """
        return self.at().export(
            path,
            format=format,
            partition_by=partition_by,
            max_rows_per_file=max_rows_per_file,
            columns=columns,
            where=where,
            storage_options=storage_options,
            progress=progress,
        )

    def retention(self) -> Retention:
        """Return how far back the table can be read: promised versions, and all readable ones.

        Versions are promised for 90 days, unless the table's property `lakeward.retention` or its
        policy says otherwise. Versions that tags, branches and clones use are kept as long as these
        exist.
        """
        from lakeward.read.retention import retention

        head = self._head()
        with self._context.database.read() as session:
            return retention(self._context, session, head)
