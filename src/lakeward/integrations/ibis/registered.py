"""Registers tables of a lake with the engine of an Ibis connection; computes expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from lakeward.errors import InvalidInput
from lakeward.integrations.ibis.batches import batches_of
from lakeward.integrations.ibis.engines import IbisEngine
from lakeward.integrations.ibis.library import library
from lakeward.read.dataset import audited
from lakeward.read.snapshot import TableSnapshot

_UNSAFE: Final = re.compile(r"[^a-z0-9_]")


class Rows(NamedTuple):
    """Rows to write, and the tables and versions of a cut that they are computed from."""

    data: Any
    reads: frozenset[tuple[str, int]]


class Registered:
    """Registers each version of a table once with the engine, under a unique name."""

    def __init__(self, engine: IbisEngine) -> None:
        self._engine = engine
        self._names: dict[tuple[object, ...], str] = {}
        self._read_at: dict[str, tuple[str, int]] = {}  # tables of a cut, by the engine's names

    def table(self, table: TableSnapshot, *, of_cut: bool) -> str:
        """Register a table at its version, unless it is, and return its name in the engine.

        `of_cut` is whether the version is that of the connection's cut; False for one that the user
        chose.
        """
        place = (table.log_head.table_id, table.version, of_cut)
        wanted = f"{table.name}_v{table.version}"

        def register(name: str) -> None:
            audited(table)
            self._engine.register(name, table)

        called = self.name_of(place, wanted, register)
        if of_cut:
            self._read_at[called] = (table.name, table.version)
        return called

    def name_of(
        self, place: tuple[object, ...], wanted: str, register: Callable[[str], None]
    ) -> str:
        """Return the name of rows in the engine; register the rows at the first call.

        Args:
            place: Identifies the rows.
            wanted: The preferred name; a number is appended if it is in use.
            register: Registers the rows with the engine under a name.
        """
        if place not in self._names:
            called = _UNSAFE.sub("_", wanted.lower())
            taken = sum(n == called or n.startswith(f"{called}_n") for n in self._names.values())
            called = f"{called}_n{taken}" if taken else called
            register(called)
            self._names[place] = called
        return self._names[place]

    def rows(self, given: Any) -> Rows:
        """Return rows for a transaction: the given data, or the result of a given expression.

        Raises:
            InvalidInput: The expression is a value or a column, or reads several connections.
        """
        ibis = library()
        if not isinstance(given, ibis.expr.types.Expr):
            return Rows(given, frozenset())
        if not isinstance(given, ibis.expr.types.Table):
            what = "A single value or column is not a table of rows."
            raise InvalidInput(what, hint="Give a table expression: .as_table() makes one.")
        import ibis.expr.operations as ops

        own = self._engine.backend
        named = {op.name for op in given.op().find(ops.DatabaseTable) if op.source is own}
        reads = frozenset(self._read_at[n] for n in named if n in self._read_at)
        found, _ = given._find_backends()
        if len(found) > 1:
            what = "The expression reads tables of several connections of Ibis."
            raise InvalidInput(what, hint="Give rows of the others as ibis.memtable(…).")
        if found and found[0] is not own:
            return Rows(batches_of(found[0], given), reads)
        return Rows(self._engine.rows(given), reads)
