"""Begins transactions of a lake, and runs functions in them until they commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.formats.background import BackgroundWorker
from lakeward.model.locks import PATIENCE_SECONDS
from lakeward.write.transaction.hooks import Hooks
from lakeward.write.transaction.registration import LeaseKeeper, checked_isolation

if TYPE_CHECKING:
    from lakeward.write.plan.retry import Retry
    from lakeward.write.transaction.lifecycle import CommitResult, Lifecycle
    from lakeward.write.transaction.strategy import OnConflict
    from lakeward.write.transaction.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Transactions:
    """Begins the transactions of a lake, and has the objects that all of them share."""

    context: LakeContext
    keeper: LeaseKeeper
    background: BackgroundWorker
    hooks: Hooks

    def begin(
        self,
        *,
        isolation: str,
        message: str | None,
        spark: Any = None,
        transaction_id: str | None = None,
        attempts: int = 1,
        on_conflict: OnConflict | None = None,
        reruns: bool = False,
        locks: Mapping[str, str] | None = None,
        lock_timeout: float = PATIENCE_SECONDS,
        properties: Mapping[str, str] | None = None,
    ) -> Transaction:
        """Begin a transaction and take its locks; the arguments are those of `Lake.transaction`.

        `attempts` is how often the function of the transaction was started, and `reruns` whether it
        can be run again.
        """
        from lakeward.write.transaction.lifecycle import Lifecycle
        from lakeward.write.transaction.transaction import Transaction

        lifecycle = Lifecycle(
            self.context,
            self.keeper,
            self.background,
            isolation=isolation,
            message=message,
            transaction_id=transaction_id,
            attempts=attempts,
            on_conflict=on_conflict,
            reruns=reruns,
            hooks=self.hooks,
            lock_timeout=lock_timeout,
            **_engine(spark),
        )
        begun = Transaction(lifecycle)
        if properties:
            begun.set_properties(properties)
        if not locks:
            return begun
        try:
            begun.lock_all(locks)
        except BaseException:
            begun.rollback()
            raise
        return begun

    def for_maintenance(self) -> Lifecycle:
        """Begin a transaction that changes no rows: it runs no hooks and waits for no lock."""
        from lakeward.write.transaction.lifecycle import Lifecycle

        return Lifecycle(self.context, self.keeper, self.background, lock_timeout=0.0)

    def run(
        self,
        fn: Callable[[Transaction], Any],
        *,
        retry: Retry | None,
        on_conflict: OnConflict | None,
        isolation: str,
        **options: Any,
    ) -> CommitResult:
        """Run a function in a new transaction and commit; on a conflict, run it again."""
        from lakeward.write.transaction.resolve import reruns as attempts_of
        from lakeward.write.transaction.strategy import Strategies

        if not callable(fn):
            what = f"`fn` must be a function of a transaction, not {type(fn).__name__}."
            raise InvalidInput(what, hint="Write lake.run(lambda tx: ...).")
        strategies = Strategies.of(on_conflict, checked_isolation(isolation), reruns=True)
        for attempt in attempts_of(self.context, retry, strategies):
            with attempt:
                with self.begin(
                    isolation=isolation,
                    attempts=attempt.retry_state.attempt_number,
                    on_conflict=on_conflict,
                    reruns=True,
                    **options,
                ) as tx:
                    value = fn(tx)
                return replace(tx.commit(), value=value)
        message = "unreachable"
        raise AssertionError(message)


def _engine(spark: Any) -> dict[str, Any]:
    """Return the arguments that make Spark execute the transaction; none without a session."""
    if spark is None:
        return {}
    from lakeward.write.spark.executor import SparkExecutor

    return {"executor": SparkExecutor, "spark": spark}
