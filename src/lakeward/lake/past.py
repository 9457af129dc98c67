"""How long a table's versions can be read, and where its rows come from."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.commit import Head

if TYPE_CHECKING:
    from lakeward.model.lineage.graph import Affected, Lineage
    from lakeward.read.retention import Retention


class Past:
    """The part of a table's interface that returns its lineage, and its readable versions."""

    _context: LakeContext

    @abstractmethod
    def _head(self) -> Head: ...

    def lineage(
        self,
        *,
        direction: str = "upstream",
        depth: int | None = None,
        column: str | None = None,
        version: int | None = None,
    ) -> Lineage:
        """Return where the table's rows come from, or which tables use them, over all steps.

        The result has edges between tables and files, and between columns where these are known;
        `tree()`, `to_mermaid()` and `to_html()` show it. If a source is not known, there is an edge
        of the kind `unknown`.

        Args:
            direction: `upstream` for the table's sources, `downstream` for tables computed from it.
            depth: How many steps to follow at most; all unless given.
            column: Only what this column depends on, or what depends on it.
            version: For `upstream`, only commits up to this version, and sources as they were.

        Raises:
            InvalidInput: There is no such direction or column.
        """
        from lakeward.read.lineage import DOWNSTREAM, UPSTREAM, table_lineage

        if direction not in (UPSTREAM, DOWNSTREAM):
            what = f"{direction!r} is no direction."
            raise InvalidInput(what, hint=f"Use {UPSTREAM} or {DOWNSTREAM}.")
        return table_lineage(
            self._context,
            self._head(),
            direction=direction,
            depth=None if depth is None else arguments.whole(depth, "depth"),
            column=arguments.optional_text(column, "column"),
            version=None if version is None else arguments.whole(version, "version"),
        )

    def affected(self, column: str) -> list[Affected]:
        """Return what is affected if a column is dropped, renamed or changed, by lineage.

        The result has the columns, of this table and of others, that were computed from the column
        or whose rows were selected by it, over any number of steps; and, with the column None,
        tables whose dependent columns are not known.

        Args:
            column: The column.

        Raises:
            InvalidInput: The table has no such column.
        """
        from lakeward.read.affected import affected

        return affected(self._context, self._head(), arguments.text(column, "column"))

    def retention(self) -> Retention:
        """Return how far back the table can be read: promised versions, and all readable ones.

        Versions are promised for 90 days, unless the table's property `lakeward.retention` or its
        policy says otherwise. Versions that tags, branches and clones use are kept as long as these
        exist.
        """
        from lakeward.read.retention import retention

        head = self._head()
        with self._context.database.read() as session:
            return retention(self._context, session, head)
