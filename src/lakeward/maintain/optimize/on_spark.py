"""Compaction and clustering by Spark, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakeward.errors import Conflict, Locked
from lakeward.maintain.optimize.asked import Asked
from lakeward.model.expressions.render import render
from lakeward.model.expressions.where import parse
from lakeward.model.maintenance import Done, Unit
from lakeward.model.quoting import identifier
from lakeward.model.schema import Schema


@dataclass(frozen=True)
class SparkOptimizer:
    """Runs `OPTIMIZE` for the one unit of a plan on Spark."""

    begin: Callable[[], Any]
    asked: Asked
    schema: Schema

    def __call__(self, unit: Unit) -> Done:
        """Run the statement; return what was done: nothing if it conflicts with a writer."""
        try:
            with self.begin() as tx:
                tx.sql(self._statement(unit.table))
            versions = tx.commit().versions
        except (Conflict, Locked):
            return Done(facts={"given_way": 1})
        return Done(files=unit.files if versions else 0, reads=unit.reads, facts={"given_way": 0})

    def _statement(self, table: str) -> str:
        parts = [f"OPTIMIZE {identifier(*table.split('.'))}"]
        if self.asked.where is not None:
            parts.append(f"WHERE {render(parse(self.asked.where, self.schema))}")
        if self.asked.layout.columns:
            parts.append(f"ZORDER BY ({', '.join(map(identifier, self.asked.layout.columns))})")
        return " ".join(parts)
