"""The properties of a transaction: its id, the versions that it reads, and its result.

`async with` returns an `AsyncTransaction`; asyncio is imported only then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from lakeward.errors import InvalidInput
from lakeward.model.names import TableName
from lakeward.model.shown import Shown, html_table
from lakeward.write.commit.outcome import Outcome, outcome
from lakeward.write.transaction.lifecycle import CommitResult, Lifecycle
from lakeward.write.transaction.member import Member
from lakeward.write.transaction.operating import Operating

if TYPE_CHECKING:
    from lakeward.write.transaction.aio import AsyncTransaction


class Standing(Shown):
    """The read-only properties of a transaction."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle
        self._view = lifecycle.view
        self._executor = lifecycle.executor
        self.transaction_id = lifecycle.transaction_id
        self.isolation = lifecycle.isolation
        self.message = lifecycle.message
        self._async: AsyncTransaction | None = None

    def __repr__(self) -> str:
        state = "open" if self.is_open else self._lifecycle.state.value.replace("_", " ")
        done = f", versions={dict(self.result.versions)}" if self.result is not None else ""
        return (
            f"Transaction({self.transaction_id!r}, {state}, isolation={self.isolation.value!r},"
            f" bases={self.bases}{done})"
        )

    def _repr_html_(self) -> str:
        versions = {} if self.result is None else self.result.versions
        rows = ((name, base, versions.get(name)) for name, base in self.bases.items())
        return html_table(repr(self).partition(", bases")[0], ["table", "from", "to"], rows)

    @property
    def result(self) -> CommitResult | None:
        """The result of the commit; None before the commit, and after a rollback."""
        return self._lifecycle.result

    @property
    def attempts(self) -> int:
        """How often the transaction was attempted, including this attempt."""
        return self._lifecycle.attempts

    @property
    def bases(self) -> dict[str, int]:
        """The version of each table that the transaction read or changed, by name."""
        return {str(n): m.change.head.version for n, m in sorted(self._view.members.items())}

    @property
    def is_open(self) -> bool:
        """Whether the transaction can still be changed."""
        return self._lifecycle.is_open

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties that `set_properties` set, which are kept with the commits."""
        return dict(self._view.properties)

    def set_properties(self, properties: Mapping[str, str], *, table: str | None = None) -> None:
        """Set properties that are kept with every commit of this transaction, or with one.

        History shows them. They are published too: in the tags of a Delta commit, and in the
        summary of an Iceberg snapshot.

        Args:
            properties: Texts by name, such as `{"job": "nightly"}`. Names that a format reserves
                are refused.
            table: Keep them with the commit of this table only, which the transaction has written
                before. They replace those of the transaction that have the same name.

        Raises:
            InvalidInput: A name or a value cannot be used, or the transaction has not written the
                table.
        """
        from lakeward.model.commit_properties import checked_properties

        self._lifecycle.check_open()
        given = checked_properties(properties)
        if table is None:
            self._view.properties.update(given)
            return
        member = self._view.members.get(TableName.parse(table))
        if member is None:
            what = f"The transaction has not written table {table}."
            hint = "Set the properties of its commit after that."
            raise InvalidInput(what, hint=hint, table=table)
        member.change.properties = {**member.change.properties, **given}

    def outcome(self) -> Outcome:
        """Return the state of the transaction in the store, and the versions that it made."""
        return outcome(self._view.context, self.transaction_id)

    async def __aenter__(self) -> AsyncTransaction:
        from lakeward.write.transaction.aio import AsyncTransaction

        self._async = AsyncTransaction(self, self._lifecycle)
        return self._async

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._async is not None:
            await self._async._end(kind, error, trace)

    def _is_replay(self) -> bool:
        return self._lifecycle.is_replay()

    def _operation(self, name: str, *, reads: bool = False) -> Operating[Member]:
        return self._lifecycle.operation(TableName.parse(name), reads=reads)
