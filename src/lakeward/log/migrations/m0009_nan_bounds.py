"""Remove the upper bounds of float columns from the statistics of adopted files.

Most writers leave NaN out of the bounds, and NaN is greater than every number, so that rows with
NaN were not found. Adoption no longer takes such bounds; this migration removes those that it took
before. In the log's JSON only values of float columns are floats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement
from lakeward.model.types import Primitive
from lakeward.model.values import MAX_KEY, MIN_KEY, order_key, width_level

STATEMENTS: tuple[str, ...] = ()

_ADOPTED = Statement(
    """SELECT f.table_id, f.added_version, f.ordinal, f.stats FROM lakeward_file f
        JOIN lakeward_commit c ON c.table_id = f.table_id AND c.version = f.added_version
        WHERE f.stats IS NOT NULL AND c.info LIKE :mark"""
)
_FILE = Statement(
    """UPDATE lakeward_file SET stats = :stats
        WHERE table_id = :table_id AND added_version = :added AND ordinal = :ordinal"""
)
_INDEX = Statement(
    """UPDATE lakeward_file_stat SET level = :widest, min_key = :lowest, max_key = :highest
        WHERE table_id = :table_id AND field_id = :field_id AND level = :level
        AND min_key = :min_key AND added_version = :added AND ordinal = :ordinal"""
)
_MARK: Final = '%"adopted":true%'
_DOUBLE: Final = Primitive("double")


def run(session: Session) -> None:
    """Remove the bounds from the rows of files and from the statistics index."""
    files: list[dict[str, Any]] = []
    index: list[dict[str, Any]] = []
    for chunk in session.stream(_ADOPTED, {"mark": _MARK}):
        for table_id, added, ordinal, text in chunk:
            stats = loads(text)
            gone = [i for i, value in stats["max"].items() if isinstance(value, float)]
            if not gone:
                continue
            key = {"table_id": table_id, "added": added, "ordinal": ordinal}
            index += (key | row for row in _indexed(stats, gone))
            stats["max"] = {i: v for i, v in stats["max"].items() if i not in gone}
            files.append(key | {"stats": dumps(stats)})
    session.many(_FILE, files)
    session.many(_INDEX, index)


def _indexed(stats: dict[str, Any], gone: list[str]) -> Iterator[dict[str, Any]]:
    """Yield, for each removed bound, its key in the index and the widest interval in its place."""
    for field_id in gone:
        if field_id in stats["min"]:
            ends = (stats["min"][field_id], stats["max"][field_id])
            low, high = (order_key(_DOUBLE, value) for value in ends)
            yield {
                "field_id": int(field_id),
                "level": width_level(low, high),
                "min_key": low,
                "widest": width_level(MIN_KEY, MAX_KEY),
                "lowest": MIN_KEY,
                "highest": MAX_KEY,
            }
