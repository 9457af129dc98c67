"""The part of a transaction that restores tables and undoes commits."""

from __future__ import annotations

from datetime import datetime

from lakeward.engines.base import Capability, unsupported
from lakeward.errors import InvalidInput, VersionNotFound
from lakeward.model.names import TableName
from lakeward.read import moments
from lakeward.write.history.restore import TableChange
from lakeward.write.transaction.revised_member import restore_member, take_back_member
from lakeward.write.transaction.whole_tables import WholeTables


class Restoring(WholeTables):
    """Restores tables, and undoes single commits."""

    def restore(
        self,
        name: str,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        transaction: str | None = None,
    ) -> TableChange:
        """Restore a table to an earlier state, as a new version; no file is copied.

        Rows, columns, properties and constraints are restored; later versions stay in the history.
        A table that already has that state gets no new version. A restore conflicts with other
        commits as an overwrite does. The result lists the files and rows that are added and
        removed.

        Args:
            name: The table.
            version: Restore this version.
            timestamp: Restore the newest version that is not later than this time.
            tag: Restore the version that a tag refers to.
            transaction: Restore the state right after the transaction of this id.

        Raises:
            VersionNotFound: There is no such version, or some of its files were deleted; then the
                error has the oldest version that can be restored.
            InvalidInput: No argument was given, or this transaction has already changed the table.
        """
        given = (version, timestamp, tag, transaction)
        if all(value is None for value in given):
            what = "No version to restore is given."
            raise InvalidInput(what, hint="Give version=, timestamp=, tag= or transaction=.")
        if self._is_replayed():
            return TableChange(name, 0, 0, 0, 0, 0, 0, is_evolved=False)
        table = TableName.parse(name)
        with self._lifecycle.operation(table, reads=True) as member:
            head, context = member.change.head, member.context
            moments.wait_for_earlier(context, transaction)
            with context.database.read() as session:
                target = moments.at(
                    context,
                    session,
                    head,
                    version=version,
                    timestamp=timestamp,
                    tag=tag,
                    transaction=transaction,
                )
            if target.version > head.version:
                what = f"Version {target.version} of table {name} is newer than this transaction."
                hint = f"It sees version {head.version}. Begin another one."
                raise VersionNotFound(what, hint=hint, table=name, version=target.version)
            self._lifecycle.view.has_restored = True
            return restore_member(member, target)

    def take_back(self, name: str, version: int, transaction_id: str) -> TableChange:
        """Undo one version of a table; `lake.undo` does so for all tables of a transaction."""
        if self._is_replayed():
            return TableChange(name, 0, 0, 0, 0, 0, 0, is_evolved=False)
        with self._lifecycle.operation(TableName.parse(name), reads=True) as member:
            return take_back_member(member, version, transaction_id)

    def _is_replayed(self) -> bool:
        engine = self._lifecycle.executor.engine
        if Capability.ADD_FILES not in engine.can:
            raise unsupported(engine, Capability.ADD_FILES)
        return self._lifecycle.is_replay()
