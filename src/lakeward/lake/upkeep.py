"""Upkeep of a lake: publishing, copies of the store, rebuilding, and the doctor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.formats.background import BackgroundWorker
from lakeward.model import arguments
from lakeward.model.progress import Progress, reported
from lakeward.write.commit.publications import publish_owed

if TYPE_CHECKING:
    from lakeward.maintain.backup import StoreCopy
    from lakeward.maintain.doctor import Report
    from lakeward.maintain.rebuild import Rebuilt


class Upkeep:
    """The part of a lake's interface that publishes commits, and copies and checks the store."""

    _context: LakeContext
    _background: BackgroundWorker

    def publish(self, *, progress: Progress | None = None) -> dict[str, int]:
        """Publish ratified commits that are not published yet; return the versions by table.

        Also waits for the checkpoints that commits left to the background worker.

        Args:
            progress: Called with the number of versions done, and of all versions.

        Raises:
            ForeignCommit: Another writer's file has the name of one of Lakeward's commits.
        """
        self._context.database.check_writable()
        self._background.wait()
        with reported(progress):
            return publish_owed(self._context)

    def backup(self, target: str | Path, *, progress: Progress | None = None) -> StoreCopy:
        """Copy the store while writers continue; an existing file is not overwritten.

        Args:
            target: A file that does not exist yet.
            progress: Called with the number of pages or rows done, and of all.
        """
        from lakeward.maintain import backup

        with reported(progress):
            return backup.backup(self._context.database, _path(target, "target"))

    def export_store(self, target: str | Path, *, progress: Progress | None = None) -> StoreCopy:
        """Export the store as a zip of Parquet files, for either database.

        Args:
            target: A file that does not exist yet.
            progress: Called with the number of rows done, and of all rows.
        """
        from lakeward.maintain import backup

        with reported(progress):
            return backup.export(self._context.database, _path(target, "target"))

    def import_store(self, source: str | Path, *, progress: Progress | None = None) -> StoreCopy:
        """Fill this lake's empty store from an export.

        Args:
            source: A file that `export_store` wrote.
            progress: Called with the number of rows done, and of all rows.
        """
        from lakeward.maintain import backup

        context = self._context
        context.database.check_writable()
        with reported(progress):
            return backup.import_into(context.database, context.storage, _path(source, "source"))

    def rebuild(self, *, progress: Progress | None = None) -> Rebuilt:
        """Fill this lake's empty store from what is published in its warehouse.

        Args:
            progress: Called with the number of tables done, and of all tables.
        """
        from lakeward.maintain.rebuild import rebuild

        self._context.database.check_writable()
        return rebuild(self._context, progress)

    def doctor(
        self,
        *,
        tables: Sequence[str] | None = None,
        fix: bool = False,
        progress: Progress | None = None,
    ) -> Report:
        """Check that the log is consistent in itself and with the published files.

        Open the lake with `repair=False`, because opening repairs a part of what this finds.

        Args:
            tables: Only these tables; all when None.
            fix: Publish ratified commits whose files are missing or incomplete, enter Iceberg
                tables again that were removed from the catalog, insert rows that the statistics
                index lacks, and roll back transactions of dead processes. The report describes the
                lake after these repairs.
            progress: Called with the number of versions and files checked, and of all of them.

        Raises:
            TableNotFound: The lake has no table of one of the names.
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
