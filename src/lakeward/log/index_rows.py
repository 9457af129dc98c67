"""Rows of the statistics index: the interval of keys of a field's values in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from lakeward.log.database import Session
from lakeward.log.statement import insertion
from lakeward.log.tables import file_stat
from lakeward.model.file import LoggedFile
from lakeward.model.types import Field
from lakeward.model.values import MAX_KEY, MIN_KEY, order_key, width_level

_INSERT = insertion(file_stat, "")


def index_rows(
    table_id: int, source: LoggedFile, indexed: Sequence[Field]
) -> Iterator[tuple[Any, ...]]:
    """Yield a file's rows of the index, with values in the order of the index's columns."""
    f = source.file
    stats = f.stats
    for field in indexed:
        low, high, nulls = MIN_KEY, MAX_KEY, None
        if field.id in f.partition:
            value = f.partition[field.id]
            if value is None:
                continue
            low = high = order_key(field.type, value)
        elif stats is not None:
            nulls = stats.nulls.get(field.id)
            minimum, maximum = stats.minimum.get(field.id), stats.maximum.get(field.id)
            if minimum is None or maximum is None:
                if nulls is not None and f.rows is not None and nulls == f.rows:
                    continue
            else:
                low, high = order_key(field.type, minimum), order_key(field.type, maximum)
        level = width_level(low, high)
        yield (table_id, field.id, level, low, source.added, source.ordinal, high, nulls)


def insert_rows(session: Session, stats: Sequence[Sequence[Any]]) -> None:
    """Insert rows of the statistics index for files that are in the log already."""
    if len(stats) >= session.bulk_from:
        session.bulk(file_stat.name, file_stat.columns, stats)
    else:
        rows = [dict(zip(file_stat.columns, row, strict=True)) for row in stats]
        session.many(_INSERT, rows)
