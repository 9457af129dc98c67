"""Random transactions over several tables: what a client is to do, before anybody does it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from tests.faults.isolation.history import LAST_KEY

_MOST_VALUES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Look:
    """Read the keys from one to another."""

    table: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Add:
    """Append a value to a key, without looking."""

    table: str
    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Update:
    """Read a key, and replace its values by the same ones and a new one.

    Attributes:
        by_delete: Delete them and append, instead of overwriting them.
    """

    table: str
    key: int
    value: int
    by_delete: bool


Step: TypeAlias = Look | Add | Update


@dataclass(frozen=True, slots=True)
class Plan:
    """A transaction to be run.

    Attributes:
        steps: In this order.
        give_up: Roll back in the end.
        from_snapshot: It only looks, and does so through `lake.snapshot()`.
    """

    steps: tuple[Step, ...]
    give_up: bool = False
    from_snapshot: bool = False


def plans(choose: random.Random, client: int, tables: tuple[str, ...], keys: int) -> Iterator[Plan]:
    """Transactions without end for a client, whose values nobody else writes.

    Few keys in few tables make them meet; a part of what they read is read in ranges, so that what
    is not there matters too.
    """
    value = client * _MOST_VALUES
    while True:
        members = choose.sample(tables, choose.choice([1, 2, 2, 2, min(3, len(tables))]))
        only_looks = choose.random() < 0.15
        steps: list[Step] = []
        for table in members * choose.choice([1, 2]):
            key, drawn = choose.randrange(keys), choose.random()
            if only_looks or drawn < 0.35:
                steps.append(_look(choose, table, key, keys))
            elif drawn < 0.7:
                value += 1
                steps.append(Add(table, key, value))
                if choose.random() < 0.3:
                    # A transaction that added without looking, and looks then.
                    steps.append(_look(choose, table, key, keys))
            else:
                value += 1
                steps.append(Update(table, key, value, choose.random() < 0.4))
        choose.shuffle(steps)
        yield Plan(
            tuple(steps),
            give_up=choose.random() < 0.05,
            from_snapshot=only_looks and choose.random() < 0.5,
        )


def _look(choose: random.Random, table: str, key: int, keys: int) -> Look:
    drawn = choose.random()
    if drawn < 0.5:
        return Look(table, key, key)
    if drawn < 0.8:
        return Look(table, key, choose.randrange(key, keys))
    return Look(table, 0, LAST_KEY)
