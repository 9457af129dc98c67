"""Upkeep of a lake: publishing, copies of the store, rebuilding, and the doctor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.formats.background import BackgroundWorker
from lakeward.model import arguments
from lakeward.write.commit.publications import publish_owed

if TYPE_CHECKING:
    from lakeward.maintain.backup import StoreCopy
    from lakeward.maintain.doctor import Report
    from lakeward.maintain.rebuild import Rebuilt


class Upkeep:
    """The part of a lake that keeps its store and its published files in order."""

    _context: LakeContext
    _background: BackgroundWorker

    def publish(self) -> dict[str, int]:
        """Write the files of commits that are not published; return the versions by table.

        Checkpoints that commits left to the background worker are written too when this returns.

        Raises:
            ForeignCommit: A file of another writer has the name of one of ours.
        """
        self._context.database.check_writable()
        self._background.wait()
        return publish_owed(self._context)

    def backup(self, target: str | Path) -> StoreCopy:
        """Copy the store while others go on writing; a file that exists is left alone."""
        from lakeward.maintain import backup

        return backup.backup(self._context.database, _path(target, "target"))

    def export_store(self, target: str | Path) -> StoreCopy:
        """Export the store as a zip of Parquet files, for either database."""
        from lakeward.maintain import backup

        return backup.export(self._context.database, _path(target, "target"))

    def import_store(self, source: str | Path) -> StoreCopy:
        """Fill this lake's empty store from an export."""
        from lakeward.maintain import backup

        context = self._context
        context.database.check_writable()
        return backup.import_into(context.database, context.storage, _path(source, "source"))

    def rebuild(self, *, progress: Callable[[int, int | None], None] | None = None) -> Rebuilt:
        """Fill this lake's empty store from what is published in its warehouse.

        Args:
            progress: Called with how many tables are done, and of how many.
        """
        from lakeward.maintain.rebuild import rebuild

        self._context.database.check_writable()
        return rebuild(self._context, progress)

    def doctor(
        self,
        *,
        tables: Sequence[str] | None = None,
        fix: bool = False,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Report:
        """Check every promise of the lake: the log against itself and against published files.

        Open the lake with `repair=False` to see it as it is.

        Args:
            tables: Only these tables; all when None.
            fix: Publish ratified commits whose files are missing or incomplete, enter Iceberg
                tables again that were taken out of the catalog, and roll back transactions of dead
                processes. The report is about the lake after that.
            progress: Called with how much is done, and of how much.

        Raises:
            TableNotFound: A name is unknown.
        """
        from lakeward.maintain.doctor import examine, mend

        if fix:
            self._context.database.check_writable()
        report = examine(self._context, tables=tables, progress=progress)
        if not fix:
            return report
        mended = mend(self._context, report)
        return replace(examine(self._context, tables=tables, progress=progress), mended=mended)


def _path(value: str | Path, parameter: str) -> Path:
    return Path(arguments.place(value, parameter))
