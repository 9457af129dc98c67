"""Publishes the commits of a transaction right after it was ratified."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.base import Ratified
from lakeward.formats.policy import compacts_itself
from lakeward.formats.registry import format_of
from lakeward.model.clock import to_datetime
from lakeward.write.commit.publications import checkpoint_if_due, publish_member
from lakeward.write.transaction import announcing
from lakeward.write.transaction.result import CommitResult

_COMPACTED_EVERY: Final = 50
_LOG = logging.getLogger(__name__)


def publish(
    context: LakeContext,
    background: BackgroundWorker,
    transaction_id: str,
    ratified: Sequence[Ratified],
    *,
    attempts: int,
) -> CommitResult:
    """Publish ratified commits; those that fail are published when the lake is next opened."""
    begun = time.perf_counter()
    published = []
    for member in sorted(ratified, key=_order) if len(ratified) > 1 else ratified:
        try:
            if member.head.guarded:
                publish_member(context, member, background)
            else:
                checkpoint_if_due(context, member, background)
            published.append(member)
        except LakewardError as error:
            _LOG.warning(
                "Version %s of %s is committed and not yet published: %s",
                member.commit.version,
                member.head.name,
                error,
            )
    for member in published:
        # In the background, and only after some commits: planning reads all small files.
        is_turn = member.commit.version % _COMPACTED_EVERY == 0 and member.commit.info.data_change
        if is_turn and compacts_itself(member.head, member.definition):
            background.compact(str(member.head.name))
    announcing.published(context, transaction_id, published, time.perf_counter() - begun)
    return CommitResult(
        transaction_id,
        {str(m.head.name): m.commit.version for m in ratified},
        to_datetime(ratified[0].commit.timestamp_ms) if ratified else None,
        attempts,
        len(published) == len(ratified),
    )


def _order(member: Ratified) -> bool:
    # An Iceberg hint confirms the whole transaction, so Delta members are published first.
    return format_of(member.head).publishes_last
