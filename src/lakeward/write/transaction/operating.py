"""The context manager of one operation of a transaction."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from lakeward.errors import FileMissing, VersionNotFound
from lakeward.log import retired
from lakeward.model.tracing import Tracer
from lakeward.write.transaction.executor import NothingDone
from lakeward.write.transaction.member import Member

M = TypeVar("M", bound=Member | None)


class Operated(Protocol):
    """The interface of a transaction that `Operating` needs."""

    transaction_id: str
    failure: BaseException | None
    tracer: Tracer | None

    def rollback(self) -> None:
        """Roll the transaction back."""

    def failed(self, error: BaseException) -> None:
        """Record violations that the error has, and deliver the event `failed` to listeners."""


class Operating(Generic[M]):
    """A context manager for one operation: if it fails, the transaction is rolled back."""

    def __init__(self, lifecycle: Operated, member: M) -> None:
        self._lifecycle = lifecycle
        self._member = member
        if lifecycle.tracer is not None:
            self._began = time.perf_counter()

    def __enter__(self) -> M:
        return self._member

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lifecycle.tracer is not None:
            self._trace(self._lifecycle.tracer)
        if isinstance(error, NothingDone):
            raise error.error from error.error.__cause__
        if error is not None:
            self._lifecycle.rollback()
            vacuumed = self._vacuumed() if isinstance(error, FileMissing) else None
            failure = error if vacuumed is None else vacuumed
            self._lifecycle.failure = failure
            self._lifecycle.failed(failure)
            if vacuumed is not None:
                raise vacuumed from error

    def _vacuumed(self) -> VersionNotFound | None:
        """Return the error that the version that is read was vacuumed; None if it was not."""
        if self._member is None:
            return None
        head = self._member.change.head
        with self._member.context.database.read() as session:
            try:
                retired.check(session, head, head.version)
            except VersionNotFound as error:
                hint = (
                    "A transaction that has only read holds no version. Run it again; what"
                    " `with lake.snapshot()` reads is held."
                )
                return VersionNotFound(error.what, hint=hint, **error.facts)
        return None

    def _trace(self, tracer: Tracer) -> None:
        table = {} if self._member is None else {"table": str(self._member.change.head.name)}
        seconds = time.perf_counter() - self._began
        tracer.step(self._lifecycle.transaction_id, "operation", seconds, **table)
