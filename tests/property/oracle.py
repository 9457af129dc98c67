"""Holds the history of a lake against the model: what was acknowledged is there, exactly once.

Every version of every table is compared with what the model makes of the one before it and of the
transaction that the log names. Several outcomes may be right: `read_committed` may put its files on
top of a newer version or do its work again there. No other outcome is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lakeward as lw
from tests.property.model import (
    Append,
    Change,
    Overwrite,
    Read,
    Row,
    State,
    applied,
    applied_all,
    depends_on,
    minds,
    selected,
)
from tests.property.play import Asked, Attempt, state_of


class Violated(AssertionError):
    """The lake did what the model does not allow."""


@dataclass
class _Net:
    """A possible effect on one table: the rows that go and those that come."""

    removed: State
    added: State

    def on(self, state: State) -> State | None:
        """The rows after it, or None where rows that shall go are not there."""
        if self.removed - state:
            return None
        return state - self.removed + self.added


@dataclass
class _Work:
    """What a transaction has done to one table so far."""

    base: int = -1
    nets: list[_Net] = field(default_factory=lambda: [_Net(Counter(), Counter())])
    changes: list[Change] = field(default_factory=list)
    touched: set[int] = field(default_factory=set)


@dataclass
class Oracle:
    """The model of some tables.

    Attributes:
        lake: Where they are.
        tables: Their names.
        states: The rows of each version of each, as the model has them.
        moved: The versions of each that only moved rows.
    """

    lake: lw.Lake
    tables: Sequence[str]
    states: dict[str, list[State]] = field(default_factory=dict)
    moved: dict[str, set[int]] = field(default_factory=dict)

    def check(self, attempts: Sequence[Attempt], *, alone: bool = True) -> None:
        """Compare all versions with all that was begun.

        Args:
            attempts: Everything that was begun on the tables.
            alone: Whether nobody committed while a transaction was ratified.

        Raises:
            Violated: The lake is not as the model says.
        """
        for table in self.tables:
            self._check_versions(table, attempts)
        for attempt in attempts:
            if attempt.versions is None:
                self._check_refused(attempt, attempts)
            else:
                self._check_whole(attempt, alone=alone)
        self._check_nothing_left(attempts)

    def _check_versions(self, table: str, attempts: Sequence[Attempt]) -> None:
        """Each version is the work of one acknowledged transaction on the one before it."""
        acknowledged = {
            (a.versions or {})[table]: a for a in attempts if table in (a.versions or {})
        }
        history = self.lake.table(table).history()
        moved = {v.version for v in history if v.operation == "OPTIMIZE"}
        self.moved[table] = moved
        logged = {v.version: v.transaction_id for v in history if v.version not in moved}
        told = {v: a.transaction_id for v, a in acknowledged.items()}
        _same(f"the versions of {table}", {**logged, 0: ""}, {**told, 0: ""})
        states = self.states[table] = [Counter()]
        for version in range(1, len(history)):
            found = state_of(self.lake.table(table).at(version=version).to_arrow())
            if version in moved:
                _same(f"the rows of {table} after a compaction", found, states[-1])
                states.append(found)
                continue
            attempt = acknowledged[version]
            allowed = list(self._allowed(attempt, table, version))
            if found not in allowed:
                what = f"version {version} of {table} is not what {attempt.transaction_id} did"
                raise Violated(_told(what, found, allowed, attempt))
            states.append(found)

    def _allowed(self, attempt: Attempt, table: str, version: int) -> Iterator[State]:
        states = self.states[table]
        work = self._settled(attempt, table)
        keyed = attempt.script.strategy(table) == "last writer"
        # A row that came and went again between the two is not there to be noticed.
        for found in states[version - 1] - states[work.base]:
            by_key = keyed and found[0] in work.touched
            if by_key or any(minds(c, found) for c in work.changes):
                what = f"{table}: {found} came after version {work.base} and was not noticed"
                raise Violated(_told(what, None, [], attempt))
        if attempt.script.level == "serializable":
            for newer in range(work.base + 1, version):
                came, went = states[newer] - states[newer - 1], states[newer - 1] - states[newer]
                self._check_reads(attempt, table, [*came, *went])
        for net in work.nets:
            after = net.on(states[version - 1])
            if after is not None:
                yield after

    def _settled(self, attempt: Attempt, table: str) -> _Work:
        """What a committed transaction did to a table, on the version that it was put on."""
        work = self._worked(attempt, table)
        after = attempt.after.get(table, work.base)
        asked = [a for a in attempt.asked if a.table == table]
        for one in asked[:1]:
            self._check_asked(one, work, attempt)
        if after == work.base:
            return work
        state = self.states[table][after]
        match attempt.script.strategy(table):
            case "last writer":
                before, touched = self.states[table][work.base], work.touched
                nets, work.nets, work.base = work.nets, [], after
                for net in nets:
                    # Rows that were there before and still are count as untouched by others.
                    mine = (before & state) - net.removed + net.added
                    kept = Counter({r: n for r, n in mine.items() if r[0] in touched})
                    rest = Counter({r: n for r, n in state.items() if r[0] not in touched})
                    work.nets.append(_net(state, kept + rest))
            case "ours" | "theirs" | "replace" if asked:
                _same("the version that was asked about", asked[-1].version, after)
                if asked[-1].answer == "theirs":
                    work.changes = []
                elif asked[-1].answer == "replace" and attempt.script.replaced is not None:
                    where, rows = attempt.script.replaced.where, attempt.script.replaced.rows
                    work.changes = [Overwrite(table, rows, where)]
                work.nets = [_net(state, applied_all(state, work.changes))]
                work.base = after
            case _:
                self._move(attempt, work, table, after)
        return work

    def _worked(self, attempt: Attempt, table: str) -> _Work:
        """What a transaction did to a table before its commit; checks what it read."""
        work, states = _Work(), self.states[table]
        for seen in attempt.seen:
            base = seen.bases.get(table)
            if base is None:
                continue
            if base != work.base:
                self._move(attempt, work, table, base)
            if seen.operation.table != table:
                continue
            views = [v for n in work.nets if (v := n.on(states[base])) is not None]
            if isinstance(seen.operation, Read):
                wanted = [selected(v, seen.operation.where) for v in views]
                if seen.rows not in wanted:
                    raise Violated(_told(f"a read of {table}", seen.rows, wanted, attempt))
                continue
            changed = [applied(v, seen.operation) for v in views]
            for old, new in zip(views, changed, strict=True):
                work.touched |= {r[0] for r in ((old - new) + (new - old))}
            work.nets = [_net(states[base], new) for new in changed]
            work.changes.append(seen.operation)
        return work

    def _move(self, attempt: Attempt, work: _Work, table: str, base: int) -> None:
        """Another version below what was done: the files stay, or the work is done again."""
        state = self.states[table][base]
        kept = [n for n in work.nets if n.on(state) is not None]
        if attempt.script.level == "read_committed":
            again = _net(state, applied_all(state, work.changes))
            work.nets = [*kept, *([again] if again not in kept else [])]
        elif all(isinstance(c, Append) for c in work.changes):
            work.nets = kept
        elif base in self.moved[table] and _net(state, applied_all(state, work.changes)) in kept:
            # The work was done again over a compaction, and came to the same. What others did is
            # compared with the base that it was first done on.
            work.nets = kept
            return
        else:
            what = f"{table} moved from version {work.base} to {base} below {work.changes}"
            raise Violated(_told(what, None, [], attempt))
        work.base = base

    def _check_asked(self, asked: Asked, work: _Work, attempt: Attempt) -> None:
        """The three sides that a function saw are what the model has."""
        states = self.states[asked.table]
        _same("the base of a collision", asked.rows_base, states[asked.base])
        _same("their side of a collision", asked.rows_theirs, states[asked.version])
        ours = [n.on(states[asked.base]) for n in work.nets]
        if asked.rows_ours not in ours:
            raise Violated(_told("our side of a collision", asked.rows_ours, ours, attempt))

    def _check_reads(self, attempt: Attempt, table: str, changed: Sequence[Row]) -> None:
        for seen in attempt.seen:
            for found in changed if seen.operation.table == table else ():
                if depends_on(seen.operation, found):
                    what = f"{seen.operation} depends on {found}, which changed before the commit"
                    raise Violated(_told(what, None, [], attempt))

    def _check_whole(self, attempt: Attempt, *, alone: bool) -> None:
        """Tables that got no version had nothing to get; tables that were read still read so."""
        for table in attempt.before:
            if table in (attempt.versions or {}):
                continue
            work = self._settled(attempt, table)
            if all(n.removed or n.added for n in work.nets):
                what = f"{table} got no version of an acknowledged transaction"
                raise Violated(_told(what, None, [], attempt))
            # What changed nothing may count as done at its cut.
            if attempt.script.level == "serializable" and alone and attempt.versions:
                states = self.states[table]
                for newer in range(attempt.before[table] + 1, attempt.heads[table] + 1):
                    changed = (states[newer] - states[newer - 1]) + (
                        states[newer - 1] - states[newer]
                    )
                    self._check_reads(attempt, table, list(changed))

    def _check_refused(self, attempt: Attempt, attempts: Sequence[Attempt]) -> None:
        """A transaction is refused only where others changed one of its tables."""
        for table in attempt.before:
            if attempt.error is None:
                break
            self._worked(attempt, table)
        if attempt.error not in (None, "Conflict"):
            return
        last = attempt.error is not None
        if not last:
            return
        for table, base in attempt.before.items():
            strategy = attempt.script.strategy(table)
            settles = strategy in ("last writer", "ours", "theirs", "replace")
            settles = settles or attempt.script.level == "read_committed"
            if not settles and attempt.heads.get(table, base) > base:
                return
        raise Violated(_told("it was refused, and nobody was in its way", None, [], attempt))

    def _check_nothing_left(self, attempts: Sequence[Attempt]) -> None:
        """No file of a transaction that was refused stays."""
        gone = {a.transaction_id for a in attempts if a.versions is None}
        for table in self.tables if gone else ():
            place = Path(self.lake.table(table).location.removeprefix("file://"))
            for path in place.rglob("*"):
                for number in gone:
                    if number in str(path.relative_to(place)) and path.is_file():
                        what = f"{path.name} is left of transaction {number}, which was refused"
                        raise Violated(what)


def _net(before: State, after: State) -> _Net:
    return _Net(before - after, after - before)


def _same(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        message = f"{what}: found {found}, wanted {wanted}"
        raise Violated(message)


def _told(what: str, found: State | None, allowed: Sequence[State | None], attempt: Attempt) -> str:
    lines = [what]
    if found is not None:
        lines += [
            f"  missing {_rows(wanted - found)}, too many {_rows(found - wanted)}"
            for wanted in allowed
            if wanted is not None
        ]
    if found is not None and not allowed:
        lines.append("  the model allows no commit here")
    script = attempt.script
    lines.append(f"  {script.level}, {script.way}, {script.default}, {script.named}")
    lines.append(f"  before {attempt.before}, heads {attempt.heads}, after {attempt.after}")
    lines += [f"    {step}" for step in script.steps]
    lines += [f"    asked: {a.table} {a.base} to {a.version}: {a.answer}" for a in attempt.asked]
    return "\n".join(lines)


def _rows(state: State) -> str:
    return ", ".join(f"{r}" if n == 1 else f"{n} x {r}" for r, n in state.items()) or "nothing"
