"""Runs scripts in real transactions, on either engine, and records what was asked and answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from zlib import crc32

import pyarrow as pa

import lakeward as lw
from lakeward.errors import Conflict, LakewardError
from tests.property.model import (
    COLUMNS,
    Append,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Read,
    Row,
    State,
    Update,
)
from tests.property.script import Others, Script
from tests.property.statements import statement_of, where_of

ARROW = pa.schema([("k", pa.int64()), ("p", pa.int64()), ("v", pa.string())])


@dataclass(frozen=True)
class Seen:
    """An operation that was done, the versions that the transaction saw then, and what it read."""

    operation: Operation
    bases: dict[str, int]
    rows: State | None = None


@dataclass(frozen=True)
class Asked:
    """A conflict that a function of the user was asked about, and what it answered."""

    table: str
    base: int
    version: int
    answer: str
    rows_base: State
    rows_theirs: State
    rows_ours: State


@dataclass
class Attempt:
    """One transaction that was begun.

    Attributes:
        script: What it was to do.
        transaction_id: By which it is in the log, if it is.
        seen: Its operations, in order.
        before: The versions it saw before the commit.
        heads: The newest versions just before the commit, or after it was refused.
        after: The versions that it was committed on top of.
        asked: Conflicts that its function settled.
        versions: What it was acknowledged with; None where it was refused.
        error: Why it was refused.
    """

    script: Script
    transaction_id: str
    seen: list[Seen] = field(default_factory=list)
    before: dict[str, int] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    after: dict[str, int] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    versions: dict[str, int] | None = None
    error: str | None = None


class RefusedAtBegin(Exception):
    """The lake does not begin such a transaction."""


Do = Callable[[lw.Transaction, Operation, int], State | None]

_MOVED_EVERY: Final = 3


class Player:
    """Plays scripts on one lake.

    Args:
        lake: Where.
        do: Does an operation, with the engine of its choice.
        elsewhere: Has another process run a script; gives what that did.
        options: What transactions are begun with besides.
    """

    def __init__(
        self,
        lake: lw.Lake,
        do: Do,
        elsewhere: Callable[[Script], list[Attempt]],
        **options: Any,
    ) -> None:
        self.lake = lake
        self._do = do
        self._elsewhere = elsewhere
        self._options = options

    def play(self, script: Script) -> list[Attempt]:
        """Run a script, and all that others do meanwhile; everything that was begun.

        Raises:
            RefusedAtBegin: Its level and strategies do not go together, or not with the engine.
        """
        out: list[Attempt] = []
        begun: list[tuple[Attempt, lw.Transaction]] = []
        to_come = [isinstance(s, Others) for s in script.steps]

        def work(tx: lw.Transaction) -> None:
            attempt = Attempt(script, tx.transaction_id)
            out.append(attempt)
            begun.append((attempt, tx))
            for place, step in enumerate(script.steps):
                if not isinstance(step, Others):
                    rows = self._do(tx, step, script.spelling[place])
                    attempt.seen.append(Seen(step, tx.bases, rows))
                elif to_come[place]:
                    to_come[place] = False
                    out.extend(self._others(step))
            attempt.before = tx.bases
            attempt.heads = {name: self.lake.table(name).version for name in tx.bases}

        options = {
            "isolation": script.level,
            "on_conflict": self._wanted(script, begun),
            **self._options,
        }
        try:
            if script.way == "run":
                retry = lw.Retry(attempts=30, first_delay_seconds=0.001)
                result = self.lake.run(work, retry=retry, **options)
            else:
                tx = self._begun(lambda: self.lake.transaction(**options))
                work(tx)
                result = tx.commit()
        except LakewardError as error:
            if not begun:
                raise RefusedAtBegin(str(error)) from error
            begun[-1][0].error = type(error).__name__
            if not isinstance(error, Conflict) and not _is_expected(begun[-1][0], error):
                raise
            attempt, failed = begun[-1]
            attempt.heads = {name: self.lake.table(name).version for name in failed.bases}
            attempt.before = attempt.before or failed.bases
            failed.rollback()
            return out
        attempt, done = begun[-1]
        assert result.transaction_id == attempt.transaction_id
        assert result.published
        attempt.versions, attempt.after = dict(result.versions), done.bases
        return out

    def _begun(self, begin: Callable[[], lw.Transaction]) -> lw.Transaction:
        try:
            return begin()
        except LakewardError as error:
            raise RefusedAtBegin(str(error)) from error

    def _others(self, step: Others) -> list[Attempt]:
        spelling = tuple(range(len(step.operations)))
        script = Script("snapshot", "transaction", "fail", {}, step.operations, spelling)
        found = self.play(script) if step.here else self._elsewhere(script)
        if crc32(repr(step.operations).encode()) % _MOVED_EVERY == 0:
            # Nobody may notice a compaction: the model knows of none.
            for table in sorted({operation.table for operation in step.operations}):
                self.lake.table(table).optimize()
        return found

    def _wanted(self, script: Script, begun: list[tuple[Attempt, lw.Transaction]]) -> Any:
        if not script.named:
            return self._strategy(script, script.default, begun)
        return {t: self._strategy(script, s, begun) for t, s in script.named.items()}

    def _strategy(
        self, script: Script, strategy: str, begun: list[tuple[Attempt, lw.Transaction]]
    ) -> Any:
        match strategy:
            case "none":
                return None
            case "fail" | "retry":
                return strategy
            case "last writer":
                return lw.LastWriterWins(key="k")

        def answer(found: lw.Collision) -> Any:
            sides = (found.read_base(), found.read_theirs(), found.read_ours())
            about = (found.table, found.base_version, found.version, strategy)
            begun[-1][0].asked.append(Asked(*about, *map(state_of, sides)))
            if strategy == "replace" and script.replaced is not None:
                where = script.replaced.where
                rows = arrow(script.replaced.rows)
                return lw.Replace(rows, None if where is None else where.text)
            return strategy.removeprefix("answer ")

        return answer


def embedded(tx: lw.Transaction, operation: Operation, spelling: int) -> State | None:
    """Do an operation without Spark, as a statement or by a call."""
    if spelling % 3 == 0 and isinstance(operation, Read):
        text = f"SELECT k, p, v FROM {operation.table}{where_of(operation.where)}"
        return state_of(tx.sql(text).to_arrow())
    if spelling % 3 == 0:
        source = _select(getattr(operation, "rows", ()))
        statement = statement_of(operation, source, overwrites=False)
        if statement is not None:
            tx.sql(statement)
            return None
    match operation:
        case Append(table, rows):
            tx.append(table, arrow(rows))
        case Overwrite(table, rows, where):
            tx.overwrite(table, arrow(rows), where=None if where is None else where.text)
        case Delete(table, where):
            tx.delete(table, where=where.text)
        case Update(table, where, mark):
            tx.update(
                table,
                set={"v": f"concat(v, '{mark}')"},
                where=None if where is None else where.text,
            )
        case Merge(table, rows, matched, not_matched, alone):
            tx.merge(
                table,
                arrow(rows),
                on="k",
                matched=matched,
                not_matched=not_matched,
                not_matched_by_source=alone,
            )
        case Read(table, where):
            return state_of(tx.read(table, where=None if where is None else where.text))
    return None


def _select(rows: Sequence[Row]) -> str:
    if not rows:
        return "SELECT 0 AS k, 0 AS p, '' AS v WHERE false"
    values = ", ".join(f"({k}, {p}, '{v}')" for k, p, v in rows)
    return f"SELECT * FROM (VALUES {values}) AS data (k, p, v)"


def arrow(rows: Sequence[Row]) -> pa.Table:
    """Rows as an Arrow table."""
    return pa.Table.from_pylist([dict(zip(COLUMNS, r, strict=True)) for r in rows], ARROW)


def state_of(table: pa.Table) -> State:
    """The rows of an Arrow table."""
    return Counter(zip(*(table.column(c).to_pylist() for c in COLUMNS), strict=True))


def _is_expected(attempt: Attempt, error: LakewardError) -> bool:
    """Merges and updates are refused where the last writer of a key wins."""
    keyed = [s for s in attempt.script.steps if isinstance(s, Merge | Update)]
    refused = type(error).__name__ == "UnsupportedFeature"
    return refused and any(attempt.script.strategy(s.table) == "last writer" for s in keyed)
