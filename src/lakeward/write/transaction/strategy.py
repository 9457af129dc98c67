"""Strategies for conflicts with transactions that committed first, and where each is allowed.

``fail`` raises the conflict; ``retry`` has `lake.run` run the function again. `LastWriterWins` and
functions of the user resolve the conflict in its table and keep the rest of the transaction. They
repeat the change on the newest version without running the code that planned it, whose reads may be
outdated, so they are allowed with ``snapshot`` only: ``read_committed`` resolves conflicts by
itself, and ``serializable`` guarantees that no decision is based on rows that have changed since.
Engines that cannot repeat changes, such as Spark, support only ``fail`` and ``retry``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import pyarrow as pa

from lakeward.engines.base import ARROW, Capability, Engine, unsupported
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import commits
from lakeward.model import arguments
from lakeward.model.commit import Head, Isolation
from lakeward.model.definition import Definition
from lakeward.model.expressions.where import parse
from lakeward.model.names import TableName
from lakeward.model.schema import Schema
from lakeward.model.types import Decimal, Primitive
from lakeward.read.history import Version, version_of
from lakeward.read.scan import check_columns
from lakeward.read.snapshot import TableSnapshot
from lakeward.write.plan.change import summary
from lakeward.write.transaction.member import Member

FAIL: Final = "fail"
RETRY: Final = "retry"
THEIRS: Final = "theirs"
OURS: Final = "ours"
ANSWERS: Final = (FAIL, RETRY, THEIRS, OURS)
_NO_KEYS: Final = frozenset({"float", "double"})


@dataclass(frozen=True, slots=True)
class LastWriterWins:
    """Resolve conflicts key by key: for the keys that it touched, the last commit wins.

    A key that the transaction wrote or removed is as the transaction left it; every other key is as
    others left it. Rows with a null in their key replace no rows.

    Attributes:
        key: The columns that identify rows: whole numbers, text, dates, times, decimals, booleans
            or binaries.
    """

    key: tuple[str, ...]

    def __init__(self, key: str | tuple[str, ...] | list[str]) -> None:
        names = [key] if isinstance(key, str) else arguments.texts(key, "key")
        if not names or len(set(names)) != len(names):
            what = "`key` must name one or more columns, each once."
            raise InvalidInput(what, hint="Write LastWriterWins(key=('id',)).", parameter="key")
        object.__setattr__(self, "key", tuple(names))

    def check(self, schema: Schema, table: str) -> None:
        """Check that a table has the columns of the key.

        Raises:
            InvalidInput: A column is missing, or its values cannot identify rows.
        """
        for name in self.key:
            found = schema.by_name.get(name)
            if found is None:
                what = f"Table {table} has no column {name!r} for LastWriterWins."
                hint = "Give on_conflict a strategy per table: {table: strategy}."
                raise InvalidInput(what, hint=hint, table=table, column=name)
            if not isinstance(found.type, Primitive | Decimal) or str(found.type) in _NO_KEYS:
                what = f"Column {name} of {table} is {found.type}, which cannot identify rows."
                hint = "Use columns of exact values."
                raise InvalidInput(what, hint=hint, table=table, column=name)


@dataclass(frozen=True, slots=True)
class Replace:
    """An answer to a collision: replace the transaction's changes of the table by these rows.

    Attributes:
        rows: Data, as for `Transaction.overwrite`.
        where: A condition for the rows of the newest version to replace; all when None.
    """

    rows: Any
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Collision:
    """A conflict in one table, for a function of the user to resolve.

    Attributes:
        transaction_id: The id of the transaction that has the conflict.
        table: The table's name.
        base_version: The version that the transaction started from.
        version: The newest version.
        kind: `removed`: others removed a file that the transaction removes or rewrites; `added`:
            others added rows that it would have to replace or remove.
        reason: A description of the conflict.
        commits: The commits of others since the base version, oldest first.
        operation: The transaction's operation, as in the table's history.
        parameters: The parameters of the operation.
    """

    transaction_id: str
    table: str
    base_version: int
    version: int
    kind: str
    reason: str
    commits: tuple[Version, ...]
    operation: str
    parameters: Mapping[str, Any]
    _member: Member = field(repr=False)
    _head: Head = field(repr=False)

    def read_base(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Return the rows of the base version."""
        return self._at(self._member.change.head).to_arrow(columns=columns, where=where)

    def read_theirs(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Return the rows of the newest version."""
        return self._at(self._head).to_arrow(columns=columns, where=where)

    def read_ours(
        self, *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """Return the rows of the base version with the transaction's changes."""
        definition = self._member.change.definition
        check_columns(columns, definition, self.table)
        scope = None if where is None else parse(where, definition.schema)
        return self._member.read(columns, scope)

    def _at(self, head: Head) -> TableSnapshot:
        member = self._member
        return TableSnapshot(
            member.context, head, head.version, head.timestamp_ms, member.change.definition
        )


Answer: TypeAlias = str | Replace
Strategy: TypeAlias = str | LastWriterWins | Callable[[Collision], Answer]
OnConflict: TypeAlias = Strategy | Mapping[str, Strategy]


@dataclass(frozen=True)
class Strategies:
    """The strategy of each table of a transaction."""

    default: Strategy  # for tables that are not in `named`
    named: Mapping[TableName, Strategy] = field(default_factory=dict)
    reruns: bool = False  # whether `lake.run` can run the transaction's function again

    @classmethod
    def of(
        cls,
        wanted: OnConflict | None,
        isolation: Isolation,
        *,
        reruns: bool,
        engine: Engine = ARROW,
    ) -> Strategies:
        """Return the strategies that a user requested, after checking them."""
        found = cls._of(wanted, isolation, reruns=reruns)
        if Capability.REPLAY not in engine.can:
            for strategy in (found.default, *found.named.values()):
                _check_needs_no_replay(strategy, engine)
        return found

    @classmethod
    def _of(cls, wanted: OnConflict | None, isolation: Isolation, *, reruns: bool) -> Strategies:
        usual = RETRY if reruns else FAIL
        if wanted is None:
            return cls(usual, {}, reruns)
        if isinstance(wanted, Mapping):
            named = {
                TableName.parse(name): _checked(one, isolation, reruns=reruns)
                for name, one in wanted.items()
            }
            return cls(usual, named, reruns)
        return cls(_checked(wanted, isolation, reruns=reruns), {}, reruns)

    def for_table(self, name: TableName) -> Strategy:
        """Return the strategy for a table."""
        return self.named.get(name, self.default) if self.named else self.default

    def rerun(self, error: Conflict) -> bool:
        """Return whether the transaction's function is to be run again after a conflict."""
        if not self.reruns:
            return False
        if "answer" in error.facts:
            return bool(error.answer == RETRY)
        name = error.facts.get("table")
        return (self.default if name is None else self.for_table(TableName.parse(name))) != FAIL


def check_answer(answer: object, definition: Definition) -> Answer:
    """Return the answer of a user's function; raise `InvalidInput` if it is not an answer."""
    if isinstance(answer, Replace):
        if answer.where is not None:
            parse(answer.where, definition.schema)
        return answer
    if isinstance(answer, str) and answer in ANSWERS:
        return answer
    what = f"{answer!r:.60} is no answer to a collision."
    words = ", ".join(repr(word) for word in ANSWERS)
    raise InvalidInput(what, hint=f"Answer {words}, or lakeward.Replace(rows, where=...).")


def _check_needs_no_replay(strategy: Strategy, engine: Engine) -> None:
    if isinstance(strategy, str):
        return
    name = engine.name
    what = (
        f"on_conflict={strategy!r:.60} does not work in a transaction on {name}: it makes changes"
        f" again on a newer version, and what {name} has done is not done again."
    )
    hint = (
        "Or use on_conflict='fail', or lake.run(fn, spark=spark) with 'retry', its default, which"
        " runs fn again on the newest version."
    )
    raise unsupported(engine, Capability.REPLAY, what, hint=hint, parameter="on_conflict")


def _checked(wanted: object, isolation: Isolation, *, reruns: bool) -> Strategy:
    if isinstance(wanted, str):
        word = wanted.lower()
        if word == RETRY and not reruns:
            what = "A transaction cannot run itself again."
            raise InvalidInput(what, hint="Use lake.run(fn), which does.", parameter="on_conflict")
        if word in (FAIL, RETRY):
            return word
    elif isinstance(wanted, LastWriterWins) or (callable(wanted) and not isinstance(wanted, type)):
        if isolation is not Isolation.SNAPSHOT:
            what = f"on_conflict={wanted!r:.60} makes no sense with isolation={isolation.value!r}."
            hint = "Use isolation='snapshot', or on_conflict='fail' or 'retry'."
            raise InvalidInput(what, hint=hint, parameter="on_conflict")
        return wanted
    what = f"{wanted!r:.60} is not a way to resolve a conflict."
    hint = "Use 'fail', 'retry' (in lake.run), lakeward.LastWriterWins(key=...) or a function."
    raise InvalidInput(what, hint=hint, parameter="on_conflict")


def collision(error: Conflict, transaction_id: str, member: Member, head: Head) -> Collision:
    """Return the description of a conflict for a function of the user."""
    change = member.change
    low, high = change.head.version + 1, head.version
    with member.context.database.read() as session:
        found = commits.history(session, head.table_id, low=low, high=high, limit=high - low + 1)
    operation = summary(change)
    return Collision(
        transaction_id=transaction_id,
        table=str(head.name),
        base_version=change.head.version,
        version=head.version,
        kind=str(error.kind),
        reason=error.reason,
        commits=tuple(version_of(c) for c in reversed(found)),
        operation=operation.name,
        parameters=MappingProxyType(dict(operation.parameters)),
        _member=member,
        _head=head,
    )
