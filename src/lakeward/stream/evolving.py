"""Adds columns that a sink's rows have and its table lacks, before the rows are buffered.

The columns are added by a separate commit before the epoch with the rows: if the epoch is written
again, the columns exist already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.engines.arrow.like import schema_of_rows
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import heads
from lakeward.model import arguments
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.evolution.merging import SchemaMode, merging
from lakeward.write.stage.evolutions import mode_of
from lakeward.write.transaction.evolving import fit_schema
from lakeward.write.transaction.transaction import Transaction

_TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class Evolving:
    """Adds the columns of rows to a sink's table, if `schema_mode` or the table's policy says so.

    Attributes:
        context: The lake's context.
        begin: Begins a transaction.
        head: The table.
        asked: The schema mode with which the sink was opened.
    """

    context: LakeContext
    begin: Callable[[], Transaction]
    head: Head
    asked: SchemaMode | None

    @classmethod
    def of(
        cls,
        context: LakeContext,
        begin: Callable[[], Transaction],
        head: Head,
        definition: Definition,
        schema_mode: object,
    ) -> Evolving:
        """Check the mode given to a sink; raise `PolicyViolation` if it is not allowed."""
        asked = None
        if schema_mode is not None:
            asked = arguments.choice(schema_mode, SchemaMode, "schema_mode")
        if asked is SchemaMode.OVERWRITE:
            what = "A sink cannot replace the schema of its table."
            raise InvalidInput(what, hint='Use schema_mode="merge".', parameter="schema_mode")
        mode_of(head, definition, asked, SchemaMode.MERGE)
        return cls(context, begin, head, asked)

    def is_due(self, data: Any, definition: Definition) -> bool:
        """Return whether rows have columns, or wider types, that the table should be given."""
        if mode_of(self.head, definition, self.asked, SchemaMode.MERGE) is None:
            return False
        try:
            given, typed = schema_of_rows(data, definition.schema.by_name)
        except InvalidInput:
            # Their columns are unknown until they are read, so they must fit the table.
            return False
        return next(merging(definition.schema, given, typed=typed), None) is not None

    def evolve(self, data: Any) -> Definition:
        """Add the columns of rows in a separate transaction; return the newest definition."""
        name = str(self.head.name)
        for attempt in range(1, _TRIES + 1):
            try:
                with self.begin() as tx, tx._operation(name) as member:
                    fit_schema(tx._executor, member, data, self.asked, SchemaMode.MERGE)
                break
            except Conflict:
                # Another sink may have added the same columns.
                if attempt == _TRIES:
                    raise
        with self.context.database.read() as session:
            return self.context.definition(session, heads.get(session, self.head.name))
