"""Functions of the user that are called before every commit is ratified, and may reject it.

They are called after the rows are staged and checked, outside of any database transaction, once for
every attempt to ratify. If one of them raises an error, the transaction ends: nothing is committed
and staged files are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from lakeward.errors import InvalidInput, Refused
from lakeward.model.commit import Isolation
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

    from lakeward.write.transaction.member import Member


@dataclass(frozen=True, slots=True)
class StagedTable:
    """The change that a transaction is about to make to one table.

    Attributes:
        name: The table.
        base_version: The version that the change is based on.
        operation: The operation, as in the table's history.
        parameters: The parameters of the operation.
        metrics: Numbers of files, rows and bytes, as in the table's history.
        added: Files to be added, with row counts and statistics: they have new rows, and the
            remaining rows of rewritten files.
        removed: Files to be removed.
        definition: The table's schema, partitioning, properties and constraints.
        new_definition: The new definition, if it changes.
    """

    name: str
    base_version: int
    operation: str
    parameters: Mapping[str, Any]
    metrics: Mapping[str, Any]
    added: tuple[DataFile, ...]
    removed: tuple[LoggedFile, ...]
    definition: Definition
    new_definition: Definition | None
    _member: Member = field(repr=False)

    def read(self, *, columns: Sequence[str] | None = None, where: str | None = None) -> pa.Table:
        """Return the rows of the files to be added.

        Args:
            columns: The names of columns to return, in order; all when None.
            where: A SQL boolean expression; rows for which it is true are kept.
        """
        from lakeward.model.expressions.where import parse
        from lakeward.read.plan import file_may_match
        from lakeward.read.scan import check_columns, read_files

        check_columns(columns, self.definition, self.name)
        scope = None if where is None else parse(where, self.definition.schema)
        files = [
            LoggedFile(f, self.base_version + 1, n)
            for n, f in enumerate(self.added)
            if scope is None or file_may_match(scope, f)
        ]
        return read_files(
            self._member.context.storage,
            self._member.change.head,
            self.definition,
            files,
            columns=columns,
            where=scope,
        ).read_all()


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A transaction whose rows are staged and checked, and not yet visible to others.

    Attributes:
        transaction_id: The transaction's id.
        isolation: The isolation level.
        actor: Who commits.
        message: The message of the transaction, if given.
        attempts: How often it was tried, including this time.
        tables: The change of each table, by table name.
    """

    transaction_id: str
    isolation: Isolation
    actor: str
    message: str | None
    attempts: int
    tables: Mapping[str, StagedTable]


F = TypeVar("F", bound=Callable[[StagedCommit], object])


class Hooks:
    """The functions that a lake calls, in the order in which they were added."""

    def __init__(self) -> None:
        self.functions: tuple[Callable[[StagedCommit], object], ...] = ()

    def before_commit(self, function: F) -> F:
        """Call a function with each commit of this lake object before it is ratified.

        The function gets a `StagedCommit` and rejects it by raising an error; its result is
        ignored. Returns the function, so that this method can be used as a decorator.

        Args:
            function: Called in the thread that commits, so several threads may call it at once.

        Raises:
            InvalidInput: `function` cannot be called.
        """
        if not callable(function):
            what = f"A hook must be a function of a staged commit, not {type(function).__name__}."
            raise InvalidInput(what, hint="Write lake.hooks.before_commit(fn).")
        self.functions = (*self.functions, function)
        return function

    def remove(self, function: Callable[[StagedCommit], object]) -> None:
        """Stop calling a function; do nothing if it is not registered."""
        self.functions = tuple(f for f in self.functions if f is not function)

    def run(self, staged: StagedCommit) -> None:
        """Call all functions.

        Raises:
            Refused: A function raised `Refused`, or another error, which is then the cause.
        """
        for function in self.functions:
            try:
                function(staged)
            except Refused as error:
                facts = {"transaction_id": staged.transaction_id, **error.facts}
                hint = error.hint or "Nothing was committed."
                raise Refused(error.what, hint=hint, **facts) from error
            except Exception as error:
                name = getattr(function, "__qualname__", repr(function))
                what = f"Hook {name} failed before the commit: {type(error).__name__}: {error}"
                hint = "Nothing was committed."
                raise Refused(
                    what, hint=hint, transaction_id=staged.transaction_id, hook=name
                ) from error


class Pending(Protocol):
    """The facts of a transaction that hooks see."""

    transaction_id: str
    isolation: Isolation
    message: str | None
    attempts: int


def staged_commit(
    transaction: Pending, actor: str, members: Mapping[TableName, Member]
) -> StagedCommit:
    """Return a transaction as it would be committed now."""
    return StagedCommit(
        transaction.transaction_id,
        transaction.isolation,
        actor,
        transaction.message,
        transaction.attempts,
        MappingProxyType({str(name): _table(member) for name, member in members.items()}),
    )


def _table(member: Member) -> StagedTable:
    from lakeward.write.plan.change import metrics, summary

    change = member.change
    operation = summary(change)
    return StagedTable(
        name=str(change.head.name),
        base_version=change.head.version,
        operation=operation.name,
        parameters=MappingProxyType(dict(operation.parameters)),
        metrics=MappingProxyType(metrics(change)),
        added=tuple(change.added),
        removed=tuple(change.removed[k] for k in sorted(change.removed)),
        definition=change.definition,
        new_definition=change.new_definition,
        _member=member,
    )
