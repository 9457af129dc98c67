"""Publication: ratified commits written out in each of a table's formats.

In version order, with bytes from the log alone; so anybody may do it, any number of times, at once,
and the result is the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.formats.background import BackgroundWorker
from lakeward.formats.base import Ratified
from lakeward.formats.registry import FORMATS, publishers
from lakeward.log import heads
from lakeward.model.commit import Head

_LOG = logging.getLogger(__name__)


def publish_member(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Publish a commit just ratified, and before it whatever earlier versions still miss.

    Raises:
        ForeignCommit: Somebody else's file has a version's name.
        StorageError: The warehouse cannot be written now. The commit stands; publish again later.
    """
    for publisher in publishers(member.head):
        publisher.publish(context, member, background)


def checkpoint_if_due(
    context: LakeContext, member: Ratified, background: BackgroundWorker | None = None
) -> None:
    """Write the checkpoint that is due at a version which is published already."""
    for publisher in publishers(member.head):
        publisher.checkpoint_if_due(context, member, background)


def publish_backlog(context: LakeContext, head: Head) -> int:
    """Publish all versions that a table may miss; return how many were looked at."""
    return max(publisher.publish_owed(context, head) for publisher in publishers(head))


def publish_again(context: LakeContext, head: Head, versions: Iterable[int]) -> None:
    """Publish versions whose files were lost or damaged."""
    lost = list(versions)
    for publisher in publishers(head):
        publisher.publish_again(context, head, lost)


def publish_owed(context: LakeContext) -> dict[str, int]:
    """Publish what any table misses; return how many versions of each were looked at."""
    with context.database.read() as session:
        owed = heads.unpublished(session)
    return {str(h.name): publish_backlog(context, h) for h in owed}


def recover(context: LakeContext) -> None:
    """Publish what others ratified and did not publish; only report what cannot be published."""
    with context.database.read() as session:
        owed = heads.unpublished(session)
    for head in owed:
        try:
            publish_backlog(context, head)
        except LakewardError as error:
            _LOG.warning("Table %s is not wholly published: %s", head.name, error)
    for format_ in FORMATS.values():
        format_.recover(context)
