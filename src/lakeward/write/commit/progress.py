"""Positions of consumers and streams that are recorded with a commit to an open table.

The published file of an open table is the commit, even if a crash undoes the database transaction
that records it and the position. So the file has the position, too, as a number of an application;
when the commit is found and recorded later, the position is taken from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from lakeward.log import consumers, inputs
from lakeward.log.consumers import ConsumerRow
from lakeward.log.database import Session
from lakeward.model.clock import now_ms
from lakeward.model.commit import AppTransaction, CommitInfo
from lakeward.model.inputs import Cursor

if TYPE_CHECKING:
    from lakeward.write.plan.change import Change

BATCHES: Final = "micro-batches"
"""The source of a stream's cursor in the log."""
_CONSUMER: Final = "lakeward.consumer:"
_STREAM: Final = "lakeward.stream:"


def of_consumer(name: str, position: int) -> AppTransaction:
    """Return the position of a consumer as a number of an application."""
    return AppTransaction(f"{_CONSUMER}{name}", position)


def of_stream(query: str, reader: str | None, batch: int) -> AppTransaction:
    """Return the last batch of a stream as a number of an application.

    `reader` is the id of the Spark query that numbers the batches.
    """
    return AppTransaction(f"{_STREAM}{reader or ''}:{query}", batch)


def stream_name(query: str) -> str:
    """Return the name under which the log has the cursor of a stream."""
    return f"stream {query}"


def add_to(change: Change, progress: Iterable[AppTransaction]) -> None:
    """Add positions to the change of a table; they replace earlier ones."""
    done = change.app_transactions
    for new in progress:
        done[:] = [a for a in done if a.app_id != new.app_id]
        done.append(new)


def restore(session: Session, info: CommitInfo, found: Iterable[AppTransaction]) -> None:
    """Record the positions that a commit of this lake has, unless the log has later ones."""
    for application in found:
        kind, _, rest = application.app_id.partition(":")
        if f"{kind}:" == _CONSUMER:
            row = ConsumerRow(rest, application.version, info.transaction_id, info.actor, now_ms())
            consumers.move_up(session, row)
        elif f"{kind}:" == _STREAM:
            reader, _, query = rest.partition(":")
            after = Cursor(0, application.version, info.transaction_id, reader or None)
            before = inputs.position(session, stream_name(query), BATCHES)
            if before is None or before.version < after.version:
                inputs.move(session, stream_name(query), BATCHES, before, after)
