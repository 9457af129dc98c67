"""Tables of a lake registered with the engine of an Ibis connection, and rows of expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from lakeward.engines.sql.pruning import Wanted
from lakeward.engines.sql.source import Source
from lakeward.errors import InvalidInput
from lakeward.integrations.ibis.engines import IbisEngine, library
from lakeward.read.snapshot import TableSnapshot
from lakeward.read.sources import source_of

_UNSAFE: Final = re.compile(r"[^a-z0-9_]")


class Rows(NamedTuple):
    """Rows to write, and the tables and versions of a cut that they are computed from."""

    data: Any
    reads: frozenset[tuple[str, int]]


class Registered:
    """Registers each version of a table once, under a name that no other has."""

    def __init__(self, engine: IbisEngine) -> None:
        self._engine = engine
        self._names: dict[tuple[object, ...], str] = {}
        self._read_at: dict[str, tuple[str, int]] = {}  # tables of a cut, by the engine's names

    def table(self, table: TableSnapshot, *, of_cut: bool) -> str:
        """Return the engine's name of a table at a version; `of_cut` if it is the cut's."""
        place = (table.log_head.table_id, table.version, of_cut)
        wanted = f"{table.name}_v{table.version}"
        called = self.name_of(place, wanted, lambda: source_of(table, Wanted()))
        if of_cut:
            self._read_at[called] = (table.name, table.version)
        return called

    def name_of(self, place: tuple[object, ...], wanted: str, source: Callable[[], Source]) -> str:
        """Return the engine's name of a source, registered when it is first asked for.

        Args:
            place: Identifies the source.
            wanted: The name, unless another source has it.
            source: Makes the source.
        """
        if place not in self._names:
            called = _UNSAFE.sub("_", wanted.lower())
            taken = sum(n == called or n.startswith(f"{called}_n") for n in self._names.values())
            called = f"{called}_n{taken}" if taken else called
            self._engine.register(called, source())
            self._names[place] = called
        return self._names[place]

    def rows(self, given: Any) -> Rows:
        """Return data for a transaction: given rows, or an expression's, which the engine streams.

        Raises:
            InvalidInput: The expression is a value or a column.
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
        found, _ = given._find_backends()
        backend = found[0] if found else own
        reads = frozenset(self._read_at[n] for n in named if n in self._read_at)
        return Rows(backend.to_pyarrow_batches(given), reads)
