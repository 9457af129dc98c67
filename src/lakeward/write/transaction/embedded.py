"""The operations of a transaction without Spark: Arrow reads and writes the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa

from lakeward.engines.base import ARROW, Engine
from lakeward.model.expressions.when import Clauses
from lakeward.model.expressions.where import parse
from lakeward.read.scan import check_columns
from lakeward.write.plan.change import Operation, RowChanges, merge_parameters, write_operation
from lakeward.write.plan.merge_plan import merge_plan
from lakeward.write.plan.merge_source import source_of
from lakeward.write.plan.row_plan import update_plan
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View


class EmbeddedExecutor:
    """Changes tables by planning files and having Arrow write them."""

    engine: ClassVar[Engine] = ARROW

    def __init__(self, view: View) -> None:
        self._merge_memory = view.context.merge_memory

    def append(self, member: Member, data: Any) -> None:
        """Write rows as files and add them."""
        member.add(member.stage(data))
        member.change.operations.append(write_operation("Append", member.change))

    def overwrite(self, member: Member, data: Any, where: str | None) -> None:
        """Replace all rows, or those for which a condition is true."""
        member.overwrite(data, where)

    def delete(self, member: Member, where: str) -> None:
        """Delete the rows for which a condition is true."""
        member.remove_rows(parse(where, member.change.definition.schema))
        member.change.operations.append(Operation("DELETE", {"predicate": where}))

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> RowChanges:
        """Set columns of rows to new values."""
        name, schema = str(member.change.head.name), member.change.definition.schema
        plan = update_plan(schema, name, values, where)
        parameters = {} if where is None else {"predicate": where}
        return member.change_rows(plan, Operation("UPDATE", parameters))

    def merge(
        self, member: Member, data: Any, on: str | Sequence[str], clauses: Clauses
    ) -> RowChanges:
        """Merge rows into a table."""
        name, schema = str(member.change.head.name), member.change.definition.schema
        source = source_of(data, schema, name, self._merge_memory)
        plan = merge_plan(schema, name, source, on, clauses)
        return member.change_rows(plan, Operation("MERGE", merge_parameters(on, clauses)))

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> pa.Table:
        """The rows as the transaction sees them."""
        change = member.change
        check_columns(columns, change.definition, str(change.head.name))
        scope = None if where is None else parse(where, change.definition.schema)
        change.reads.append(scope)
        return member.read(columns, scope)

    def prepare(self) -> None:
        """Nothing: every operation completes its change at once."""

    def end(self, *, committed: bool | None) -> None:
        """Nothing: it holds nothing."""
