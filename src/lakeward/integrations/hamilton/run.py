"""A run of a Hamilton driver as one transaction.

Tables are read at one pinned cut. The run's writes are committed when its block ends; if a node
fails, nothing is committed.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from lakeward.errors import Conflict
from lakeward.integrations.writing import WriteOptions, write_rows
from lakeward.lake.lake import Lake
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.lifecycle import CommitResult
from lakeward.write.transaction.transaction import Transaction


@contextmanager
def run(lake: Lake, *, message: str | None = None) -> Generator[LakeRun]:
    """Begin a run: commit the driver's writes when the block ends, all of them or none.

    Args:
        lake: The lake whose tables are read and written.
        message: Why; kept with the commit.

    Raises:
        Conflict: Another commit changed what the run wrote. Nothing was committed; run it again.
    """
    with (
        lake.snapshot() as snapshot,
        lake.transaction(message=message) as tx,
    ):
        yield LakeRun(snapshot, tx)


class LakeRun:
    """Inputs for a driver: tables to read, and targets to write to.

    Attributes:
        transaction: The transaction of the run.
    """

    def __init__(self, snapshot: LakeSnapshot, transaction: Transaction) -> None:
        self._snapshot = snapshot
        self.transaction = transaction
        self._lock = Lock()
        self._read: dict[str, int] = {}

    @property
    def result(self) -> CommitResult | None:
        """The result of the commit; None before the block ends, or if nothing was committed."""
        return self.transaction.result

    def table(self, name: str) -> TableSnapshot:
        """Return a table at the run's cut, as an input, which Hamilton's cache keys by version.

        Raises:
            TableNotFound: There is no such table.
        """
        found = self._snapshot.table(name)
        self._read[found.name] = found.version
        return found

    def target(self, name: str) -> Target:
        """Return a table to write to, as an input of savers.

        The table need not exist: the first save creates it.
        """
        return Target(self, name)

    def save(
        self,
        name: str,
        data: Any,
        *,
        mode: str = "append",
        on: str | Sequence[str] | None = None,
        where: str | None = None,
        format: str = "delta",  # noqa: A002  the name users know
        schema_mode: str | None = None,
    ) -> RowChanges:
        """Write rows in the run's transaction; savers call it, in any thread.

        Args:
            name: The table; if it does not exist, it is created with the columns of the data.
            data: As in `Transaction.append`.
            mode: `append`, `overwrite` (all rows, or those for which `where` is true), `upsert` by
                the key `on`, `error` if the table exists, or `ignore`: do nothing if it exists.
            on: The key columns, for `upsert`.
            where: A SQL boolean expression for the rows to replace, for `overwrite`.
            format: `delta` or `iceberg`, if the table is created.
            schema_mode: As in `Transaction.append`.

        Raises:
            InvalidInput: There is no such mode, or `on` or `where` does not fit the mode.
            AlreadyExists: The mode is `error`, and the table exists.
            Conflict: The run has read the table, and another commit has changed it since.
        """
        options = WriteOptions(
            mode=mode, key=on, where=where, schema_mode=schema_mode, format=format
        )
        tx = self.transaction
        with self._lock:
            exists = name in self._snapshot.versions or name in tx.bases
            done = write_rows(tx, name, data, options, exists=exists)
            self._check_unchanged(name)
        return done

    def _check_unchanged(self, name: str) -> None:
        seen, base = self._read.get(name), self.transaction.bases.get(name)
        if seen is not None and base is not None and seen != base:
            self.transaction.rollback()
            what = f"The run reads version {seen} of {name}, which is at version {base} now."
            hint = "Nothing was committed. Run it again."
            raise Conflict(what, hint=hint, table=name, version=seen)


class Target:
    """A table that savers of a run write to.

    Its key in Hamilton's cache differs in each run, so that the cache never skips a save.
    """

    def __init__(self, run: LakeRun, name: str) -> None:
        self.run = run
        self.name = name

    def __repr__(self) -> str:
        return f"Target({self.name!r}, transaction={self.run.transaction.transaction_id!r})"
