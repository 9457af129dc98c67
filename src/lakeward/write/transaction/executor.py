"""What a transaction has its engine do: one implementation each for Arrow and for Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from lakeward.engines.base import Engine
from lakeward.model.expressions.when import Clauses
from lakeward.write.plan.change import RowChanges
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.view import View


class NothingDone(Exception):
    """An operation was refused before it changed anything, so its transaction goes on.

    Attributes:
        error: What the user is to see.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Executor(Protocol):
    """Carries out the operations of one transaction; the transaction has checked its state.

    What an operation raises rolls the transaction back, but for `NothingDone`.
    """

    engine: ClassVar[Engine]

    def __init__(self, view: View, **options: Any) -> None:
        """Begin to work on the tables that a transaction sees."""

    def append(self, member: Member, data: Any) -> None:
        """Add rows."""

    def overwrite(self, member: Member, data: Any, where: str | None) -> None:
        """Replace all rows, or those for which a condition is true."""

    def delete(self, member: Member, where: str) -> None:
        """Delete the rows for which a condition is true."""

    def update(self, member: Member, values: Mapping[str, str], where: str | None) -> RowChanges:
        """Set columns of rows to new values."""

    def merge(
        self, member: Member, data: Any, on: str | Sequence[str], clauses: Clauses
    ) -> RowChanges:
        """Merge rows into a table."""

    def read(self, member: Member, columns: Sequence[str] | None, where: str | None) -> Any:
        """The rows as the transaction sees them."""

    def prepare(self) -> None:
        """Complete the changes of all tables, before they are ratified."""

    def end(self, *, committed: bool | None) -> None:
        """Release what it holds; None where it is unknown how the transaction ended."""


class Sql(Protocol):
    """A statement that was read and has not run."""

    @property
    def changes(self) -> bool:
        """Whether it may change something."""


class SqlExecutor(Executor, Protocol):
    """An executor that runs SQL besides, in a session of its own."""

    @property
    def session(self) -> Any:
        """The engine's session of this transaction."""

    def name(self, member: Member) -> str:
        """What a table is called in that session."""

    def statement(self, text: str, values: Mapping[str, Any]) -> Sql:
        """Read a statement of SQL, with values in the place of `{name}`."""

    def run(self, statement: Any, args: Any) -> Any:
        """Run a statement; its rows."""

    def nothing(self) -> Any:
        """What a statement that has nothing to do answers."""
