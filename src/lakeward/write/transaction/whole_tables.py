"""The methods of a transaction that create, alter and drop tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from lakeward.engines.base import Capability
from lakeward.errors import AlreadyExists
from lakeward.model import arguments
from lakeward.model.evolution.alterations import Alteration
from lakeward.model.evolution.apply import is_needed
from lakeward.model.names import TableName
from lakeward.write.alter.alter import depends_on_rows
from lakeward.write.alter.builder import Alter
from lakeward.write.transaction.evolving import alter
from lakeward.write.transaction.executor import SqlExecutor
from lakeward.write.transaction.standing import Standing


class WholeTables(Standing):
    """The methods of a transaction that create, alter and drop tables."""

    def create(
        self,
        name: str,
        schema: Any = None,
        *,
        like: Any = None,
        format: str = "delta",  # noqa: A002  the name users know
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> None:
        """Create an empty table that this transaction may fill, and others see after the commit.

        The arguments are those of `Lake.create`, which has more of them.

        Raises:
            InvalidInput: An argument is wrong, or not possible in this format.
            AlreadyExists: The lake has a table of this name.
        """
        from lakeward.write.stage.remote_files import located
        from lakeward.write.tables.create import columns_of
        from lakeward.write.transaction.seen import NewTable, Seen

        self._lifecycle.check_open()
        parsed = TableName.parse(name)
        by = [partition_by] if isinstance(partition_by, str) else partition_by
        asked = NewTable(
            format,
            arguments.texts(by, "partition_by"),
            arguments.mapping(properties, "properties"),
            arguments.optional_text(comment, "comment"),
        )
        by_spark = Capability.RUN_SQL in self._executor.engine.can
        if by_spark and hasattr(like, "_jdf"):
            like, _ = self._executor.columns_of(like, ())
        columns = columns_of(schema, located(like, self._lifecycle.context.storage))
        if self._is_replay():
            return
        if by_spark:
            with self._lifecycle.running():
                cast(SqlExecutor, self._executor).create(parsed, columns, asked)
            return
        seen = Seen(self._lifecycle, self._operation)
        if seen.knows(parsed):
            what = f"The lake has a table {name} already."
            raise AlreadyExists(what, hint="Choose another name.", table=name)
        seen.make(parsed, columns, asked)

    def alter(self, name: str) -> Alter:
        """Return a builder that alters a table's columns, properties and checks.

        Later operations of this transaction see the altered table.
        """

        def do(asked: Alteration, *, if_needed: bool) -> None:
            if not self._is_replay():
                with self._operation(name, reads=depends_on_rows(asked)) as member:
                    if not if_needed or is_needed(member.change.definition, asked):
                        alter(self._executor, member, asked)

        return Alter(do)

    def drop(self, name: str) -> None:
        """Drop a table when the transaction commits, and discard its pending changes.

        The transaction no longer sees it, and may create another table of the same name. Its files
        stay until they are vacuumed.

        Raises:
            TableNotFound: There is no such table.
        """
        if not self._is_replay():
            with self._operation(name):
                self._executor.drop(TableName.parse(name))
