"""Migration of Parquet directories and of tables of another format into a lake."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, StorageError
from lakeward.lake.transactions import Transactions
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.names import TableName

if TYPE_CHECKING:
    from lakeward.maintain.migrate.source import Source
    from lakeward.model.migration import Migration

_DELTA = "_delta_log"
_ICEBERG = "*.metadata.json"


class Migrating:
    """The part of a lake's interface that migrates external data into tables."""

    _context: LakeContext
    _transactions: Transactions

    def migrate(
        self,
        path: str | Path,
        name: str,
        *,
        format: str = "delta",  # noqa: A002  the name users know
        mode: str = "copy",
        partition_by: Sequence[str] | None = None,
        verify: bool = True,
        dry_run: bool = False,
        report: str | Path | None = None,
        progress: Callable[[int, int | None], None] | None = None,
    ) -> Migration:
        """Make a table from a directory of Parquet files, or from a table of another format.

        Called again with the same options, it adds new files and reports changed and missing ones;
        a table that rewrote rows since is refused. An interrupted migration continues. At the end
        everything is compared: counts, schema, and checksums by column and partition.

        Args:
            path: A directory of Parquet files, with or without Hive partitions; the directory of a
                Delta or Iceberg table; or the name of a table of this lake.
            name: The new table's name.
            format: `delta` or `iceberg`.
            mode: `copy` rewrites the rows; `in-place` uses the files as they are.
            partition_by: As in `create`; when None, that of the source, or, called again, of the
                table.
            verify: Compare the table with the source.
            dry_run: Return the report and change nothing.
            report: A file to write the report to: `.html`, or JSON.
            progress: Called with the number of files done, and of all files.

        Raises:
            InvalidInput: The source cannot be migrated in this way; nothing was changed.
            SchemaMismatch: Files disagree about a column; the error names them.
            Conflict: Another migration has added files meanwhile.
        """
        from lakeward.maintain.migrate.run import Asked, Migrator
        from lakeward.model.migration import MigrationMode
        from lakeward.write.transaction.lifecycle import Lifecycle

        chosen = arguments.choice(mode, MigrationMode, "mode")
        arguments.flag(dry_run, "dry_run")
        target = TableName.parse(name)
        by = None if partition_by is None else tuple(arguments.texts(partition_by, "partition_by"))
        if not dry_run:
            self._context.database.check_writable()
        page_or_json = None if report is None else _report_place(arguments.place(report, "report"))
        shared = self._transactions

        def begin() -> Lifecycle:
            return Lifecycle(shared.context, shared.keeper, shared.background, hooks=shared.hooks)

        with self._source(arguments.place(path, "path")) as source:
            asked = Asked(
                source,
                target,
                arguments.text(format, "format"),
                chosen,
                by,
                arguments.flag(verify, "verify"),
            )
            found = Migrator(self._context, begin).run(asked, dry_run=dry_run, progress=progress)
        if page_or_json is not None:
            _write_report(found, page_or_json)
        return found

    @contextmanager
    def _source(self, path: str) -> Generator[Source]:
        from lakeward.maintain.migrate.source import ParquetSource, TableSource
        from lakeward.read import snapshot as snapshots
        from lakeward.write.commit.publications import follow

        place = Path(path)
        if not place.exists():
            # With the commits of other engines that nobody has read yet.
            own = follow(self._context, self._own_table(path))
            with self._context.database.read() as session:
                found = snapshots.latest(self._context, session, own)
                yield TableSource(found, path, is_own=True)
            return
        place = _normalized(place)
        if (place / _DELTA).is_dir() or list((place / "metadata").glob(_ICEBERG)):
            with _foreign(place, self._opened_aside) as table:
                yield TableSource(table.at(), str(place))
            return
        yield ParquetSource(place)

    def _opened_aside(self, directory: Path) -> Any:
        """Open a new lake in a directory; `Lake` implements it."""
        raise NotImplementedError

    def _own_table(self, text: str) -> Any:
        try:
            wanted = TableName.parse(text)
        except InvalidInput:
            wanted = None
        with self._context.database.read() as session:
            head = None if wanted is None else heads.find(session, wanted)
        if head is None:
            what = f"There is no directory {text}, and the lake has no such table."
            hint = "Give a directory of Parquet files, or a table."
            raise InvalidInput(what, hint=hint, path=text)
        return head


def _normalized(place: Path) -> Path:
    """Return the full path of a directory without `..`, so that it is recorded in one way."""
    plain = Path(os.path.normpath(place.absolute()))
    # After a link, `..` leads elsewhere.
    return plain if plain.exists() and plain.samefile(place) else place.resolve()


def _report_place(text: str) -> Path:
    """Return where to write a report; raise `InvalidInput` if that cannot be a file."""
    place = Path(text).absolute()
    if place.is_dir() or not place.parent.is_dir():
        what = f"The report cannot be written: {place} is a directory."
        if not place.is_dir():
            what = f"The report cannot be written: there is no directory {place.parent}."
        raise InvalidInput(what, parameter="report", path=str(place))
    return place


def _write_report(found: Migration, place: Path) -> None:
    """Write a report as a page or as JSON; raise `StorageError` if that fails."""
    import orjson

    from lakeward.maintain.migrate.html import page
    from lakeward.model.records import to_json

    is_page = place.suffix in (".html", ".htm")
    try:
        if is_page:
            place.write_text(page(found), encoding="utf-8")
        else:
            place.write_bytes(orjson.dumps(to_json(found), option=orjson.OPT_INDENT_2))
    except OSError as error:
        done = f" Version {found.version} of {found.table} is not affected by it."
        what = f"The report {place} cannot be written: {error.strerror}."
        what = what if found.version is None else what + done
        raise StorageError(what, hint="Check permissions and space.", path=str(place)) from error


@contextmanager
def _foreign(place: Path, lakes: Callable[[Path], Any]) -> Generator[Any]:
    """Open an external table read-only, through a temporary lake.

    Adoption only reads an Iceberg table, or a Delta table without guard. `lakes` opens a lake in a
    directory.
    """
    with tempfile.TemporaryDirectory(prefix="lakeward-") as directory:
        lake = lakes(Path(directory))
        try:
            yield lake.adopt("source", place, guard=False)
        finally:
            lake.close()
