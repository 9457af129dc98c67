"""Finds the sources of rows that a transaction on Spark writes, from the plans of DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lakeward.engines.spark.lineage import plan_lineage
from lakeward.log import heads
from lakeward.model.commit import Head
from lakeward.model.lineage.origin import MARK, Origin, of_files
from lakeward.model.lineage.query import ROWS_OF, Ref
from lakeward.model.names import TableName
from lakeward.storage.paths import Move
from lakeward.write.transaction.view import View

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import DataFrame


class Origins:
    """Finds the sources of DataFrames, and collects those of the current operation.

    Attributes:
        written: Tables that rows were added to, each with the sources of these rows.
        views: Temporary views that a statement reads, each with the sources of its rows.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self.written: list[tuple[TableName, Origin]] = []
        self.views: dict[str, Origin] = {}

    def clear(self) -> None:
        """Discard the collected sources, before the next operation."""
        self.written.clear()
        self.views.clear()

    def note_written(self, table: TableName, frame: DataFrame) -> None:
        """Record the sources of rows that are added to a table.

        `frame` has the rows, or is the result of the statement that adds them.
        """
        found = self.of_frame(frame)
        if found is not None:
            self.written.append((table, found))

    def note_view(self, name: str, frame: DataFrame) -> None:
        """Record the sources of a view's rows."""
        found = self.of_frame(frame)
        if found is not None:
            self.views[name] = found

    def of_frame(self, frame: DataFrame) -> Origin | None:
        """Return the sources of a DataFrame's rows; None if they cannot be found from its plan."""
        found = plan_lineage(frame)
        if found is None:
            return None
        tables: dict[str, tuple[int, int]] = {}
        files: dict[str, tuple[str, ...]] = {}
        names = []
        for leaf in found["leaves"]:
            head = self._table(leaf)
            if head is not None:
                name, is_new = str(head[0].name), head[1]
                version = leaf.get("version")
                seen = head[0].version if version is None else int(version)
                tables[name] = (0 if is_new else head[0].table_id, seen)
            else:
                name, paths = of_files(leaf.get("files") or [leaf["table"]])
                files[name] = paths
            names.append(name)
        if not found["known"]:
            return Origin(None, frozenset(), tables, files, memory=True)
        columns = {column: _refs(refs, names) for column, refs in found["columns"]}
        return Origin(columns, _refs(found["rows"], names), tables, files, bool(found["memory"]))

    def _table(self, leaf: Mapping[str, Any]) -> tuple[Head, bool] | None:
        """Return the table that a leaf of a plan reads, and whether the transaction created it."""
        if "name" in leaf:
            return self._named(TableName.parse(leaf["name"]))
        if "table" not in leaf:
            return None
        path, context = str(leaf["table"]), self._view.context
        for member in self._view.members.values():
            head = member.change.head
            if Move((context.storage.uri(head.location),), "").inside(path) is not None:
                return head, member.change.is_new
        below = Move((context.storage.root,), "").inside(path)
        if below is None:
            return None
        with context.database.read() as session:
            while below:
                found = heads.by_location(session, below)
                if found is not None:
                    return found, False
                below = below.rpartition("/")[0]
        return None

    def _named(self, name: TableName) -> tuple[Head, bool]:
        member = self._view.members.get(name)
        if member is not None:
            return member.change.head, member.change.is_new
        with self._view.context.database.read() as session:
            return heads.get(session, name), False


def marked(frame: DataFrame, table: object) -> DataFrame:
    """Return a DataFrame whose plan marks its rows as those of a table, for lineage."""
    return frame.alias(f"{MARK}{table}")


def _refs(found: Sequence[Sequence[Any]], names: Sequence[str]) -> frozenset[Ref]:
    return frozenset((names[leaf], column or ROWS_OF) for leaf, column in found)
