"""What clients of a lake did and saw: the nouns that the checker works on.

A table holds rows of a key and a value. Every value is written once in a history, so that whoever
sees it has seen the one transaction that wrote it. A key's values only grow: a transaction adds one
blindly, or replaces all of them by those that it read and a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

LAST_KEY: Final = 2**31


class Level(IntEnum):
    """What is promised; each level promises what those before it do, and more."""

    READ_COMMITTED = 1
    SNAPSHOT = 2
    SERIALIZABLE = 3

    @property
    def word(self) -> str:
        """How `lake.transaction(isolation=…)` spells it."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Append:
    """A value was added to a key, without looking."""

    table: str
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Replace:
    """All values of a key were replaced: by those that were read before, and a new one."""

    table: str
    key: int
    kept: tuple[int, ...]
    value: int


@dataclass(frozen=True, slots=True)
class Read:
    """Keys were looked at, by one request.

    Attributes:
        table: Where.
        first: The smallest key asked for.
        last: The greatest. One key is an item; more of them are a predicate, which also tells what
            is not there.
        seen: The values found, by key.
        called: When it was asked, by a clock that all clients share.
    """

    table: str
    first: int
    last: int
    seen: Mapping[int, tuple[int, ...]]
    called: int = 0

    def covers(self, key: int) -> bool:
        """Whether it would have seen values of a key of its table."""
        return self.first <= key <= self.last

    @property
    def is_item(self) -> bool:
        """Whether it asked for one key."""
        return self.first == self.last


Operation: TypeAlias = Append | Replace | Read


@dataclass(frozen=True, slots=True)
class Transaction:
    """What one transaction did, in order, and what became of it.

    Attributes:
        label: By which it is known.
        operations: Writes that were asked for, and reads that were answered.
        committed: Whether its writes count. What it read counts either way: somebody acted on it.
        called: When it began.
        returned: When its outcome was known.
        versions: The version that it became in each table it wrote.
        level: What it was promised.
    """

    label: str
    operations: tuple[Operation, ...]
    committed: bool = True
    called: int = 0
    returned: int = 2**63
    versions: Mapping[str, int] = field(default_factory=dict)
    level: Level = Level.SERIALIZABLE

    @property
    def reads(self) -> list[Read]:
        """All that it saw."""
        return [o for o in self.operations if isinstance(o, Read)]

    @property
    def looked(self) -> int:
        """When it first looked; when it began, if it never did."""
        return min((r.called for r in self.reads), default=self.called)


@dataclass(frozen=True, slots=True)
class Write:
    """One value that a transaction added to a key.

    Attributes:
        author: The transaction's place in the history.
        table: Where.
        key: Where.
        value: The one that it wrote itself.
        version: Of the table.
        kept: The values that stayed, where it replaced; None where it only added.
    """

    author: int
    table: str
    key: int
    value: int
    version: int
    kept: frozenset[int] | None


def writes_of(place: int, transaction: Transaction) -> list[Write]:
    """The values that a transaction wrote, in the order in which it did."""
    return [
        Write(
            place,
            o.table,
            o.key,
            o.value,
            transaction.versions.get(o.table, -1),
            frozenset(o.kept) if isinstance(o, Replace) else None,
        )
        for o in transaction.operations
        if not isinstance(o, Read)
    ]
