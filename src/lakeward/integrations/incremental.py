"""State of incremental computations, in tables of the lake and committed with their results.

A computation has a name and reads some tables. For each of these the store keeps a cursor: the
version up to which the computation has processed it. A run reads its inputs at one pinned cut, gets
the rows that changed since the cursors, and commits its results, the new cursors and a record of
the run in one transaction. So a result is never there without its cursor, nor a cursor without its
result, and of two concurrent runs of a computation one is refused.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from lakeward.errors import (
    AlreadyExists,
    Conflict,
    ConstraintViolation,
    InvalidInput,
    TableNotFound,
)
from lakeward.lake.lake import Lake
from lakeward.model import arguments
from lakeward.model.constraints import Unique
from lakeward.model.parameters import Params
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.transaction import Transaction

_CURSORS: Final = (
    "computation string not null, input string not null, table_id int64 not null, "
    "version int64 not null, run int64 not null, state string, moved timestamp not null"
)
_RUNS: Final = (
    "computation string not null, run int64 not null, input string not null, since int64, "
    "version int64 not null, output string, inserted int64 not null, updated int64 not null, "
    "deleted int64 not null, transaction_id string not null, ended timestamp not null"
)
_OF: Final = "computation = :name"
_ONE: Final = "one_cursor"


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a computation has processed a table.

    Attributes:
        input: The table.
        version: The last version that was processed.
        run: The number of the run that moved the cursor there.
        state: The state that the run stored for the next run.
    """

    input: str
    version: int
    run: int
    state: Any


class StateStore:
    """Cursors and records of runs, in the tables `NAMESPACE.cursors` and `NAMESPACE.runs`."""

    def __init__(self, lake: Lake, namespace: str = "state", *, format: str = "delta") -> None:  # noqa: A002
        """Open the store; create its tables if they are missing."""
        self._lake = lake
        self.cursors_table = f"{arguments.text(namespace, 'namespace')}.cursors"
        self.runs_table = f"{namespace}.runs"
        key = {_ONE: Unique("computation", "input")}
        # By computation, so that runs of different ones never touch the same files.
        by = ("computation",)
        self._make(self.cursors_table, _CURSORS, format=format, constraints=key, partition_by=by)
        self._make(self.runs_table, _RUNS, format=format)

    def cursors(self, computation: str) -> dict[str, Cursor]:
        """Return the cursors of a computation, by table; none before its first run."""
        given = {"name": arguments.text(computation, "computation")}
        rows = self._lake.table(self.cursors_table).to_arrow(where=_OF, params=given)
        return {row["input"]: _cursor(row) for row in rows.to_pylist()}

    def forget(self, computation: str) -> None:
        """Drop the cursors of a computation, so that its next run computes everything."""
        given = {"name": arguments.text(computation, "computation")}
        with self._lake.transaction(message=f"{computation} starts again") as tx:
            tx.delete(self.cursors_table, where=_OF, params=given)

    @contextmanager
    def run(
        self, computation: str, *, inputs: Sequence[str], message: str | None = None
    ) -> Generator[Run]:
        """Run a computation; the block's writes are committed with the cursors, or not at all.

        Args:
            computation: The computation's name, the same in each run.
            inputs: The tables that the computation reads.
            message: Why; kept with the commit.

        Raises:
            Conflict: Another run of the computation ended meanwhile; nothing was committed.
            TableNotFound: The lake has no such table.
            VersionNotFound: Changes since a cursor were vacuumed: call `forget`.
        """
        name = arguments.text(computation, "computation")
        names = arguments.texts(inputs, "inputs")
        if not names:
            what = f"Computation {name} reads no table."
            raise InvalidInput(what, hint="Give the names of the tables that it reads.")
        with (
            _one_at_a_time(name),
            self._lake.transaction(message=message or f"run of {name}") as tx,
        ):
            # The transaction reads the cursors before anything else, so that it conflicts with
            # every other run that moves them from now on. The inputs are pinned after that, so
            # that they are not older than the cursors.
            seen = tx.read(self.cursors_table, where=_OF, params={"name": name})
            known = {row["input"]: row for row in seen.to_pylist()}
            number = 1 + max((row["run"] for row in known.values()), default=0)
            with self._lake.snapshot() as cut:
                read = {n: _input(self._lake, cut.table(n), known.get(n)) for n in names}
                newest = max(known.values(), key=lambda row: row["run"], default=None)
                run = Run(tx, number, read, newest)
                yield run
            _check_versions(run, name)
            self._note(tx, name, run)

    def _make(self, name: str, columns: str, **given: Any) -> None:
        try:
            self._lake.table(name)
        except TableNotFound:
            # Another process may make it at the same time.
            with suppress(AlreadyExists):
                self._lake.create(name, columns, **given)

    def _note(self, tx: Transaction, computation: str, run: Run) -> None:
        now = datetime.now(UTC)
        state = json.dumps(run.state)
        cursors = [
            {
                "computation": computation,
                "input": name,
                "table_id": one.snapshot.log_head.table_id,
                "version": one.version,
                "run": run.number,
                "state": state,
                "moved": now,
            }
            for name, one in run.inputs.items()
        ]
        written = run.written or {None: RowChanges()}
        records = [
            {
                "computation": computation,
                "run": run.number,
                "input": name,
                "since": one.since,
                "version": one.version,
                "output": output,
                "inserted": changes.inserted,
                "updated": changes.updated,
                "deleted": changes.deleted,
                "transaction_id": tx.transaction_id,
                "ended": now,
            }
            for name, one in run.inputs.items()
            for output, changes in written.items()
        ]
        columns = self._lake.table(self.cursors_table).schema.to_arrow()
        rows = pa.Table.from_pylist(cursors, schema=columns)
        tx.merge(self.cursors_table, rows, on=["computation", "input"])
        tx.append(self.runs_table, records)


@dataclass(frozen=True, slots=True)
class Input:
    """A table that a run reads, at one version.

    Attributes:
        snapshot: The table at this version.
        since: The version that the previous run processed; None if this run must read all rows.
    """

    snapshot: TableSnapshot
    since: int | None
    lake: Lake

    @property
    def version(self) -> int:
        """The version at which the run reads the table."""
        return self.snapshot.version

    @property
    def is_changed(self) -> bool:
        """Whether there are versions that no run has processed."""
        return self.since != self.version

    def changes(self, *, key: str | Sequence[str] | None = None) -> pa.Table:
        """Return the rows that changed since the cursor, as `table.changes` does.

        Raises:
            InvalidInput: There is no cursor yet: the run must read all rows.
        """
        if self.since is None:
            what = f"{self.snapshot.name} has not been processed yet."
            raise InvalidInput(what, hint="Read all rows of `snapshot` if `since` is None.")
        table = self.lake.table(self.snapshot.name)
        first = min(self.since + 1, self.version)
        with table.changes(since=first, until=self.version, key=key) as reader:
            rows = reader.read_all()
        return rows if self.is_changed else rows.slice(0, 0)

    def changed_values(self, *columns: str) -> pa.Table:
        """Return the distinct values that columns have in changed rows, before or after.

        These are the groups of a result that must be computed again. Without a cursor, they are the
        values in all rows.
        """
        if self.since is None:
            rows = self.snapshot.to_arrow(columns=list(columns))
        else:
            rows = self.changes().select(list(columns))
        return rows.group_by(list(columns)).aggregate([])


class Run:
    """One run of a computation, inside its transaction.

    Attributes:
        tx: The transaction; whatever it writes is committed with the cursors.
        number: The number of the run, from 1 on.
        inputs: The tables that the run reads, by name.
        before: The state that the previous run stored; None in the first run.
        state: The state to store for the next run: any JSON value.
        written: The rows that `upsert` and `replace` changed, by table.
    """

    def __init__(
        self,
        tx: Transaction,
        number: int,
        inputs: Mapping[str, Input],
        known: Mapping[str, Any] | None,
    ) -> None:
        self.tx = tx
        self.number = number
        self.inputs = inputs
        self.before = None if known is None else _cursor(known).state
        self.state: Any = None
        self.written: dict[str | None, RowChanges] = {}

    @property
    def is_needed(self) -> bool:
        """Whether an input has changed since the previous run."""
        return any(one.is_changed for one in self.inputs.values())

    def upsert(self, output: str, rows: Any, *, key: str | Sequence[str]) -> RowChanges:
        """Update the rows of a table that have the key of a given row; insert the other rows."""
        on = [key] if isinstance(key, str) else list(key)
        return self._count(output, self.tx.merge(output, rows, on=on))

    def replace(
        self, output: str, rows: Any, *, where: str, params: Params | None = None
    ) -> RowChanges:
        """Replace the rows of a table for which `where` is true; new rows must satisfy it too."""
        return self._count(output, self.tx.overwrite(output, rows, where=where, params=params))

    def _count(self, output: str, done: RowChanges) -> RowChanges:
        """Add the counts of an operation to those of its output, and return them."""
        before = asdict(self.written.get(output, RowChanges()))
        both = {name: (before[name], count) for name, count in asdict(done).items()}
        self.written[output] = RowChanges(
            **{n: None if a is None or b is None else a + b for n, (a, b) in both.items()}
        )
        return done


@contextmanager
def _one_at_a_time(computation: str) -> Generator[None]:
    """Raise `Conflict` if another run has moved the cursors since this one began."""
    try:
        yield
    except ConstraintViolation as error:
        if error.facts.get("constraint") != _ONE:
            raise
        what = f"Another run of {computation} ended while this one ran. Nothing was committed."
        raise Conflict(what, hint="Run it again.", computation=computation) from error


def _check_versions(run: Run, computation: str) -> None:
    """Raise `Conflict` if the transaction saw an input at another version than the run."""
    bases = run.tx.bases
    for name, one in run.inputs.items():
        if bases.get(name, one.version) != one.version:
            what = (
                f"The run of {computation} reads {name} at version {one.version}, and its"
                f" transaction at version {bases[name]}. Nothing was committed."
            )
            raise Conflict(what, hint="Run it again.", computation=computation, table=name)


def _input(lake: Lake, snapshot: TableSnapshot, known: Mapping[str, Any] | None) -> Input:
    # A table of the same name that was made anew has other versions.
    if known is None or known["table_id"] != snapshot.log_head.table_id:
        return Input(snapshot, None, lake)
    if known["version"] > snapshot.version:
        what = (
            f"{known['computation']} has processed version {known['version']} of {snapshot.name},"
            f" which is at version {snapshot.version}."
        )
        hint = "Run it again; if the lake was restored from a backup, call `forget` first."
        raise Conflict(what, hint=hint, computation=known["computation"], table=snapshot.name)
    return Input(snapshot, known["version"], lake)


def _cursor(row: Mapping[str, Any]) -> Cursor:
    state = json.loads(row["state"]) if row["state"] is not None else None
    return Cursor(row["input"], row["version"], row["run"], state)
