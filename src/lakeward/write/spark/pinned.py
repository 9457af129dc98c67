"""Versions of tables as temporary views of a Spark session, to be read outside a transaction.

The session is a copy of the user's, so that no other session sees the views. The caller must
protect the versions from vacuum while it uses the views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lakeward.context import LakeContext
from lakeward.engines.spark.parse_statement import read_statement
from lakeward.engines.spark.statement import Kind
from lakeward.engines.spark.workspace import Workspace
from lakeward.errors import UnsupportedFeature
from lakeward.model.commit import new_transaction_id
from lakeward.model.quoting import identifier
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.spark.formats import ADAPTERS

if TYPE_CHECKING:
    from lakeward.engines.spark.workspace import SparkSession


class PinnedViews:
    """A session of Spark with temporary views of tables at fixed versions."""

    def __init__(self, context: LakeContext, spark: SparkSession) -> None:
        self._workspace = Workspace(spark, new_transaction_id())
        self._formats = {n: kind(context, self._workspace) for n, kind in ADAPTERS.items()}

    @property
    def session(self) -> SparkSession:
        """The session in which the views are registered."""
        return self._workspace.session

    def show(self, name: str, table: TableSnapshot) -> None:
        """Create a view with this name of a table at its version."""
        head = table.log_head
        found = self._formats[head.format].at_version(head, table.version, table.definition)
        self._workspace.frame(f"SELECT * FROM {found.sql}").createOrReplaceTempView(name)

    def close(self) -> None:
        """Unregister the tables; the views cannot be read any more."""
        self._workspace.close()


def query_over(text: str, view_of: Callable[[Sequence[str]], str]) -> str:
    """Return a query of Spark SQL with views in place of the tables that it names.

    Args:
        text: The query.
        view_of: Returns the view that replaces a table, by the parts of the table's name.

    Raises:
        InvalidInput: The text cannot be parsed.
        UnsupportedFeature: The text is not a query, or reads older versions.
    """
    statement = read_statement(text)
    if statement.kind is not Kind.QUERY:
        what = f"This runs queries, and this is {statement.kind.upper()}."
        raise UnsupportedFeature(what, hint="Write `with lake.transaction(spark=…) as tx:`.")
    if any(ref.travels for ref in statement.tables):
        what = "Older versions are not read by SQL here."
        raise UnsupportedFeature(what, hint="Use con.table(name, version=…), or lake.sql.")
    views = {ref.start: identifier(view_of(ref.parts)) for ref in statement.tables}
    # A view has an alias where the query calls columns by the table's own name.
    aliases = {ref.start: identifier(ref.parts[-1]) for ref in statement.tables}
    return statement.rewritten(
        lambda ref: (
            views[ref.start] if ref.is_aliased else f"{views[ref.start]} AS {aliases[ref.start]}"
        ),
        lambda qualifier: aliases.get(qualifier.table),
    )
