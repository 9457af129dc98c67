"""Random transactions: what each does, at which level, and what others do in between."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

from tests.property.model import (
    Append,
    Delete,
    Merge,
    Operation,
    Overwrite,
    Read,
    Row,
    Update,
    Where,
    row,
)

KEYS = range(12)
LEVELS = ("read_committed", "snapshot", "serializable")
PLAIN = ("none", "fail", "retry")
REPLAYING = ("last writer", "ours")
SETTLING = (*REPLAYING, "theirs", "replace", "answer fail", "answer retry")
STRATEGIES = (*PLAIN, *SETTLING)
WAYS = ("transaction", "run")
KINDS = ("delta", "vectors", "iceberg")


@dataclass(frozen=True)
class Others:
    """A transaction of somebody else, committed before the script goes on.

    Attributes:
        operations: What it does.
        here: Whether this process runs it, with the script's engine; else another process does.
    """

    operations: tuple[Operation, ...]
    here: bool = False


Step = Operation | Others


@dataclass(frozen=True)
class Script:
    """One transaction.

    Attributes:
        level: Its isolation.
        way: `transaction`, or `run`, which runs it again.
        default: The strategy for all tables, or for tables that are not named.
        named: Strategies of single tables.
        steps: What happens, in order, before the commit.
        spelling: Numbers that choose how each operation is written, where there are several ways.
        replaced: The answer of functions that replace rows.
    """

    level: str
    way: str
    default: str
    named: dict[str, str] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()
    spelling: tuple[int, ...] = ()
    replaced: Overwrite | None = None

    def strategy(self, table: str) -> str:
        """The strategy for a table."""
        return self.named.get(table, self.default)


@dataclass
class Generator:
    """Makes scripts; every value that it gives out is new.

    Attributes:
        chance: Chooses.
        longest: How many operations a transaction has at most.
    """

    chance: random.Random
    longest: int = 4
    _numbers: count[int] = field(default_factory=count)

    def script(
        self, tables: list[str], level: str, way: str, strategy: str, *, mapped: bool = False
    ) -> Script:
        """A transaction over some tables, with others in between."""
        default, named = strategy, {}
        if mapped:
            usual = "retry" if way == "run" else "fail"
            default, named = "none", {tables[0]: strategy, **dict.fromkeys(tables[1:], usual)}
        keyed = [t for t in tables if named.get(t, default) == "last writer"]
        steps: list[Step] = []
        for _ in range(self.chance.randint(1, self.longest)):
            table = self.chance.choice(tables)
            steps.append(self.operation(table, keyed=table in keyed))
        if all(isinstance(s, Read) for s in steps):
            steps.append(self.change(tables[0], keyed=tables[0] in keyed))
        touched = [s.table for s in steps if not isinstance(s, Others)]
        for _ in range(self.chance.choice((0, 1, 1, 2, 2))):
            late = self.chance.random() < 0.7
            place = len(steps) if late else self.chance.randint(0, len(steps))
            steps.insert(place, self.others(touched))
        spelling = tuple(self.chance.randrange(1000) for _ in steps)
        replaced = self._overwrite(tables[0])
        return Script(level, way, default, named, tuple(steps), spelling, replaced)

    def others(self, tables: list[str]) -> Others:
        """What somebody else commits."""
        some = self.chance.sample(sorted(set(tables)), self.chance.randint(1, len(set(tables))))
        return Others(tuple(self.change(t) for t in some), here=self.chance.random() < 0.2)

    def operation(self, table: str, *, keyed: bool = False) -> Operation:
        """Something that a transaction does."""
        if self.chance.random() < 0.15:
            return Read(table, self.where() if self.chance.random() < 0.5 else None)
        return self.change(table, keyed=keyed)

    def change(self, table: str, *, keyed: bool = False) -> Operation:
        """Something that changes rows; what the last writer of a key may do where that counts."""
        kinds = ["append", "append", "overwrite", "delete", "update", *["merge"] * 4]
        match self.chance.choice(kinds[:4] if keyed and self.chance.random() < 0.95 else kinds):
            case "append":
                return Append(table, self.rows(self.keys()))
            case "overwrite":
                return self._overwrite(table)
            case "delete":
                return Delete(table, self.where())
            case "update":
                where = self.where() if self.chance.random() < 0.85 else None
                return Update(table, where, f"+{next(self._numbers)}")
            case _:
                return self._merge(table)

    def keys(self) -> list[int]:
        """Some keys, each once."""
        return self.chance.sample(KEYS, self.chance.randint(1, 4))

    def rows(self, keys: list[int]) -> tuple[Row, ...]:
        """New rows."""
        return tuple(row(k, f"v{next(self._numbers)}") for k in keys)

    def where(self) -> Where:
        """A condition."""
        sign = self.chance.choice(("<", ">=", "=", "IN", "part"))
        if sign == "part":
            return Where("p", "=", (self.chance.randrange(3),))
        if sign == "IN":
            return Where("k", sign, tuple(self.keys()))
        return Where("k", sign, (self.chance.choice(KEYS),))

    def _overwrite(self, table: str) -> Overwrite:
        where = self.where() if self.chance.random() < 0.8 else None
        rows = [r for r in self.rows(self.keys()) if where is None or where.holds(r)]
        return Overwrite(table, tuple(rows), where)

    def _merge(self, table: str) -> Merge:
        shapes = [
            *[(None, "insert", None)] * 5,
            ("update", "insert", None),
            ("update", None, None),
            ("delete", None, None),
            ("delete", "insert", None),
            ("update", "insert", "delete"),
        ]
        return Merge(table, self.rows(self.keys()), *self.chance.choice(shapes))
