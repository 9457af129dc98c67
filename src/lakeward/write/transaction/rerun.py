"""Running a transaction's function again, from its start, when others were in the way."""

from __future__ import annotations

import tenacity

from lakeward.context import LakeContext
from lakeward.errors import Conflict, InvalidInput
from lakeward.log import heads
from lakeward.model.names import TableName
from lakeward.write.plan.retry import Retry
from lakeward.write.transaction.strategy import Strategies


def reruns(context: LakeContext, retry: Retry | None, strategies: Strategies) -> tenacity.Retrying:
    """Attempts for as long as conflicts end them and patience lasts.

    Args:
        context: The lake's.
        retry: What the caller wants; without it, what the table wants that the conflict is over.
        strategies: Which conflicts ask for another attempt.

    Raises:
        InvalidInput: `retry` is no `Retry`.
    """
    if retry is not None and not isinstance(retry, Retry):
        what = f"`retry` must be a lakeward.Retry, not {type(retry).__name__}."
        raise InvalidInput(what, hint="Write retry=lw.Retry(attempts=5).")

    def policy(state: tenacity.RetryCallState) -> Retry:
        if retry is not None:
            return retry
        error = state.outcome.exception() if state.outcome is not None else None
        return _of_table(context, error)

    def wait(state: tenacity.RetryCallState) -> float:
        return policy(state).delay(state.attempt_number)

    def ends(state: tenacity.RetryCallState) -> bool:
        return state.attempt_number >= policy(state).attempts

    def again(error: BaseException) -> bool:
        return isinstance(error, Conflict) and strategies.rerun(error)

    def count(_: tenacity.RetryCallState) -> None:
        context.counters.add("reruns")

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(again),
        stop=ends,
        wait=wait,
        before_sleep=count,
        reraise=True,
    )


def _of_table(context: LakeContext, error: BaseException | None) -> Retry:
    name = error.facts.get("table") if isinstance(error, Conflict) else None
    if name is None:
        return Retry()
    with context.database.read() as session:
        head = heads.find(session, TableName.parse(name))
        properties = {} if head is None else context.definition(session, head).properties
    try:
        return Retry.of(properties)
    except InvalidInput:
        # An adopted table may have anything there.
        return Retry()
