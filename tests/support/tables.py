"""Tables for tests, each in the state that a test needs, made by the lake's own write path.

::

    _TABLE = table_of(id="int64", v="string").rows(numbered(0, 1), numbered(2)).deleted("id = 1")

    def test_…(lake):
        made = _TABLE.make(lake, "shop.orders", policy={"append_only": True})

A state is a value: each method returns a new one, and `make` may be called as often as needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

import lakeward as lw
from tests.support.target import LakeTarget

Step = Callable[[lw.Transaction, str], object]


@dataclass(frozen=True)
class TableState:
    """A table to be made: its definition, and one transaction for each version after the first.

    Attributes:
        schema: As `Lake.create` takes it.
        given: Further options of `Lake.create`.
        steps: What each transaction does to the table.
    """

    schema: Any
    given: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()

    def options(self, **given: Any) -> TableState:
        """With these options of `Lake.create`; dictionaries are joined with those given before."""
        return replace(self, given=_joined(self.given, given))

    def partitioned(self, *columns: str) -> TableState:
        """With these columns, or transforms of them, to partition by."""
        return self.options(partition_by=list(columns))

    def merging_on_read(self, **policy: Any) -> TableState:
        """With deletes written as deletion vectors or delete files."""
        return self.options(policy={"merge_on_read": True, **policy})

    def rows(self, *versions: Any) -> TableState:
        """Append each of these in a transaction of its own."""
        return self._then(*(_appending(data) for data in versions))

    def deleted(self, where: str) -> TableState:
        """Delete rows in a transaction of its own."""
        return self._then(lambda tx, name: tx.delete(name, where=where))

    def make(self, lake: lw.Lake, name: str = "t", **given: Any) -> lw.Table:
        """Make the table; `given` are further options of `Lake.create`."""
        made = lake.create(name, self.schema, **_joined(self.given, given))
        for step in self.steps:
            with lake.transaction() as tx:
                step(tx, name)
        return made

    def make_at(self, target: LakeTarget, name: str = "t") -> None:
        """Make the table in a lake that is open only meanwhile."""
        with target.open() as lake:
            self.make(lake, name)

    def _then(self, *steps: Step) -> TableState:
        return replace(self, steps=(*self.steps, *steps))


def table_of(schema: Any = None, **columns: str) -> TableState:
    """A table with these columns: in any form that `Lake.create` takes, or by name."""
    return TableState(columns if schema is None else schema)


def numbered(*ids: int, v: str = "old") -> pa.Table:
    """Rows of the columns `id` and `v`, the same text in each."""
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([v] * len(ids), pa.string())})


def _appending(data: Any) -> Step:
    return lambda tx, name: tx.append(name, data)


def _joined(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    out = dict(before)
    for key, value in given.items():
        old = out.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            out[key] = {**old, **value}
        else:
            out[key] = value
    return out
