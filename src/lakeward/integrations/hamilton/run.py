"""A run of a Hamilton driver as one transaction.

Tables are read at one pinned cut; what the run writes is committed when its block ends, and nothing
of it if a node fails.
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
    """Begin a run: what the driver writes in the block is committed at its end, or not at all.

    Args:
        lake: Whose tables are read and written.
        message: Why; kept with the commit.

    Raises:
        Conflict: Others changed what the run wrote. Nothing was committed; run it again.
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
        """What was committed, after the block; None before it ends, and if nothing was."""
        return self.transaction.result

    def table(self, name: str) -> TableSnapshot:
        """A table at the run's cut, as an input: Hamilton's cache knows it by its version.

        Raises:
            TableNotFound: There is no such table.
        """
        found = self._snapshot.table(name)
        self._read[found.name] = found.version
        return found

    def target(self, name: str) -> Target:
        """A table to write to, as an input of savers.

        The table need not be there before: the first rows that are saved make it.
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
            name: The table; it is made if there is none, with the columns of the data.
            data: As in `Transaction.append`.
            mode: `append`, `overwrite` (all rows, or those for which `where` is true), `upsert` by
                the key `on`, `error` if the table exists, or `ignore`: do nothing if it exists.
            on: The key, for `upsert`.
            where: For `overwrite`.
            format: `delta` or `iceberg`, if the table is made.
            schema_mode: As in `Transaction.append`.

        Raises:
            InvalidInput: The mode, or what goes with it, is wrong.
            AlreadyExists: The mode is `error`, and the table exists.
            Conflict: The run reads the table, which others changed meanwhile.
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

    Each run has its own, so that Hamilton's cache never skips a save.
    """

    def __init__(self, run: LakeRun, name: str) -> None:
        self.run = run
        self.name = name

    def __repr__(self) -> str:
        return f"Target({self.name!r}, transaction={self.run.transaction.transaction_id!r})"
