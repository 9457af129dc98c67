"""Warns if columns of tables depend, by lineage, on a column that is about to change."""

from __future__ import annotations

import logging
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.model.evolution.alterations import Alteration, ChangeType, DropColumn, RenameColumn
from lakeward.read.affected import affected
from lakeward.write.plan.change import Change

_NEWEST: Final = 1000
"""How many commits with recorded sources are searched, so that an alteration stays fast."""
_SHOWN: Final = 3
_LOG: Final = logging.getLogger(__name__)


def warn_of_dependents(context: LakeContext, change: Change, asked: Alteration) -> None:
    """Log a warning if the newest commits of the lake used a column that is to be altered."""
    if change.is_new or not isinstance(asked, DropColumn | RenameColumn | ChangeType):
        return
    # Lineage has columns of tables, and no parts of columns.
    is_column = asked.path in change.definition.schema.by_name
    column = asked.path if is_column else asked.path.partition(".")[0]
    head = change.head
    try:
        found = affected(context, head, column, newest=_NEWEST)
    except InvalidInput:
        # The transaction itself made the column, so nothing can depend on it.
        return
    if found:
        names = ", ".join(map(str, found[:_SHOWN]))
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        what = "%s of %s: %s%s used column %s. List all: lakeward lineage %s --column %s --affected"
        _LOG.warning(what, asked, head.name, names, more, column, head.name, column)
