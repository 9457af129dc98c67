"""Every error that Lakeward raises, in one tree.

A class exists where a caller would act differently::

    LakewardError
    ├── InvalidInput              the request is wrong; nothing was written
    │   ├── InvalidName
    │   ├── InvalidExpression     a `where` or a check that does not parse or bind
    │   ├── SchemaMismatch        data that does not fit the table's schema
    │   ├── ConstraintViolation   rows that a constraint refuses
    │   ├── PolicyViolation       a change that the policy of the table does not allow
    │   ├── ExpectationFailed     rows that a step of a pipeline does not expect
    │   ├── UnsupportedFeature    asks for something this engine or table cannot do
    │   └── EpochOutOfOrder       an epoch that does not follow the last one
    ├── NotFound
    │   ├── LakeNotFound
    │   ├── TableNotFound
    │   ├── VersionNotFound
    │   └── TransactionNotFound
    ├── AlreadyExists
    ├── Conflict                  another commit changed what this one touched; run it again
    │   └── Deadlock              transactions that wait for each other; this one is the victim
    ├── Refused                   a commit hook of the user refused the commit
    ├── StepFailed                a step of a pipeline raised an error of its own
    ├── Locked                    another transaction holds the table; try again later
    ├── TransactionClosed         committed, rolled back, failed or expired before
    ├── EpochFailed               rows of a sink could not be staged; discard and write them again
    ├── SinkClosed                the sink accepts no more rows
    │   └── Fenced                a newer instance of the writer took over
    ├── OutcomeUnknown            the store did not answer; ask again by transaction id
    ├── StoreError                the log's database cannot be used
    │   ├── StoreUnavailable      cannot be reached now; retry later
    │   ├── StoreCorrupt
    │   ├── StoreTooNew           written by a newer Lakeward
    │   ├── ReadOnlyLake          the lake was opened read-only; nothing was written
    │   └── WrongWarehouse        the store and the warehouse do not belong together
    ├── StorageError              data or metadata files cannot be written or read
    │   └── FileMissing
    ├── PublicationBlocked        a published file differs from the log
    │   └── ForeignCommit         a foreign commit has the version that ours needs
    ├── CorruptTable              a table's own metadata cannot be understood
    └── MissingExtra              an optional library is not installed

Errors have facts as attributes (`table`, `version`, `transaction_id`, …) and can be pickled;
`retryable` is true where running the same thing again can help.
"""

from __future__ import annotations

from typing import Any, ClassVar


class LakewardError(Exception):
    """Base class of all errors that Lakeward raises.

    Args:
        what: What happened, in one sentence.
        hint: What to do about it.
        **facts: Named facts, available as attributes and in `facts`.
    """

    retryable: ClassVar[bool] = False
    exit_code: ClassVar[int] = 1
    shows_values: ClassVar[bool] = False
    """Whether the message can contain values of rows, conditions, or text of the user's code."""

    def __init__(self, what: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        facts: dict[str, Any] = self.__dict__.get("facts", {})
        if name in facts:
            return facts[name]
        message = f"{type(self).__name__} has no attribute {name!r}"
        raise AttributeError(message)

    def __str__(self) -> str:
        return f"{self.what} {self.hint}" if self.hint else self.what

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.what, self.hint, self.facts))


def without_values(error: BaseException) -> str:
    """Return what is known of an error without values of rows, for events and other systems.

    The message of an error that can contain values is left out; its table and column are kept.
    """
    if isinstance(error, LakewardError) and not error.shows_values:
        return error.what
    facts = error.facts if isinstance(error, LakewardError) else {}
    where = [f"{key} {facts[key]}" for key in ("table", "column", "constraint") if facts.get(key)]
    place = f" ({', '.join(where)})" if where else ""
    return f"{type(error).__name__}{place}; the message is left out, since it can contain values."


def _rebuild(
    kind: type[LakewardError], what: str, hint: str | None, facts: dict[str, Any]
) -> LakewardError:
    return kind(what, hint=hint, **facts)


class InvalidInput(LakewardError, ValueError):
    """The request is wrong; nothing was written."""

    exit_code = 2
    shows_values = True


class InvalidName(InvalidInput):
    """A table, column or constraint name that cannot be used."""


class InvalidExpression(InvalidInput):
    """An expression that does not parse, or does not fit the schema."""


class SchemaMismatch(InvalidInput):
    """Data that does not fit the table's schema."""


class ConstraintViolation(InvalidInput):
    """Rows that violate a constraint: `constraint`, `count` and `sample` say which."""


class PolicyViolation(InvalidInput):
    """A change that a policy of the table does not allow: `pattern` and `field` identify it."""


class ExpectationFailed(InvalidInput):
    """Rows that a step of a pipeline does not expect. Nothing of its run was committed."""


class UnsupportedFeature(InvalidInput):
    """Something that this engine or this table cannot do."""


class EpochOutOfOrder(InvalidInput):
    """An epoch that does not follow the previous epoch: see `epoch`, `last` and `expected`."""


class NotFound(LakewardError, LookupError):
    """Something named in the request does not exist."""

    exit_code = 3


class LakeNotFound(NotFound):
    """There is no lake at this location."""


class TableNotFound(NotFound):
    """The lake has no table of this name."""


class VersionNotFound(NotFound):
    """The table has no such version, or none at that time."""


class TransactionNotFound(NotFound):
    """The log has no transaction of this id."""


class AlreadyExists(LakewardError):
    """A table of this name, or a log at this location, exists already."""

    exit_code = 4


class Conflict(LakewardError):
    """Another commit changed what this transaction read or wrote. Nothing was committed."""

    retryable = True
    exit_code = 5


class Deadlock(Conflict):
    """Transactions waited for each other's locks, and this one was chosen as the victim.

    It is rolled back, so that the others continue; `cycle` has their ids and `tables` the tables.
    Running it again may succeed.
    """


class Refused(LakewardError):
    """A commit hook refused the transaction. Nothing was committed.

    A hook raises it to refuse. Any other exception that a hook raises becomes the cause of a
    `Refused`.
    """

    exit_code = 14
    shows_values = True


class StepFailed(LakewardError):
    """A step of a pipeline raised, or its rows could not be computed. Nothing was committed.

    `step`, `function`, `file` and `line` say where; `__cause__` is the error that was raised.
    """

    exit_code = 18
    shows_values = True


class Locked(LakewardError):
    """Another transaction holds the table: see `holders`, `held_seconds`, `waited_seconds`."""

    retryable = True
    exit_code = 15


class TransactionClosed(LakewardError):
    """The transaction was committed, rolled back or expired before."""


class EpochFailed(LakewardError):
    """Rows that were written to a sink could not be staged, so their epoch cannot be committed.

    Call `discard` and write the epoch again from its beginning.
    """

    retryable = True
    exit_code = 16
    shows_values = True


class SinkClosed(LakewardError):
    """The sink was closed; if an error closed it, `__cause__` is that error."""

    exit_code = 17
    shows_values = True


class Fenced(SinkClosed):
    """A newer instance of the same writer has replaced this instance, which cannot commit."""


class OutcomeUnknown(LakewardError):
    """The store did not respond to the commit, which may or may not have happened.

    No file was deleted. Call `lake.outcome(transaction_id)` when the store responds again.
    """

    exit_code = 6


class StoreError(LakewardError):
    """The log's database cannot be used."""

    exit_code = 7


class StoreUnavailable(StoreError):
    """The log's database cannot be reached, or is locked; retry later."""

    retryable = True


class StoreCorrupt(StoreError):
    """The log's database is damaged, or is not a Lakeward store."""


class StoreTooNew(StoreError):
    """The store was written by a newer Lakeward."""


class ReadOnlyLake(StoreError):
    """The lake was opened read-only, so it cannot be changed. Nothing was written.

    `reason` says why it is read-only.
    """


class WrongWarehouse(StoreError):
    """The store and the warehouse do not belong together. Nothing was written.

    `warehouse` is the warehouse that was given, `recorded` the one that the store records, if any.
    """


class StorageError(LakewardError):
    """Data or metadata files cannot be written or read."""

    exit_code = 8


class FileMissing(StorageError):
    """A file that the log refers to does not exist."""


class PublicationBlocked(LakewardError):
    """A published file differs from the log, so nothing after it can be published."""

    exit_code = 9


class ForeignCommit(PublicationBlocked):
    """A foreign commit has the version that ours needs."""


class CorruptTable(LakewardError):
    """A table's own metadata cannot be understood."""

    exit_code = 10


class MissingExtra(LakewardError, ImportError):
    """An optional library is not installed; the hint names the extra."""

    exit_code = 11
