"""A table that goes through every kind of maintenance, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import lakeward as lw
from lakeward.formats.delta.log_compaction import write_compacted
from lakeward.log import heads
from lakeward.model.names import TableName
from tests.support.inside import context_of

NOW: Final[dict[str, Any]] = {"retention": "0s", "force": True}


def steps(lake: lw.Lake, name: str, table_format: str) -> Iterator[tuple[str, lw.Table]]:
    """Maintain a table; yield what was done last, and the table."""
    vectors = {"merge_on_read": True, "merge_on_read_fraction": 0.5}
    table = lake.create(
        name,
        {"id": "int64", "p": "string"},
        format=table_format,
        partition_by=["p"],
        policy=vectors if table_format == "delta" else None,
        properties={"lakeward.bloom": "id"},
    )
    for start in range(0, 400, 100):
        table.append([{"id": start + n, "p": "ab"[n % 2]} for n in range(100)])
    table.delete(where="id % 10 = 3")
    table.update(set={"id": "-id"}, where="id < 20")
    yield "written", table
    table.optimize()
    yield "packed", table
    table.optimize(zorder=["id"], target_size=2_000)
    yield "clustered", table
    table.checkpoint()
    yield "checkpoint", table
    lake.tag("kept")
    for n in range(3):
        table.append([{"id": 1000 + n, "p": None}])
    if table_format == "delta":
        with context_of(lake).database.read() as session:
            head = heads.get(session, TableName.parse(name))
        last = table.version
        assert write_compacted(context_of(lake), head, last - 2, last)
    yield "log compacted", table
    table.vacuum(**NOW)
    yield "vacuumed", table
    table.expire(**NOW)
    yield "expired", table
    table.restore(tag="kept")
    yield "restored", table
    lake.drop(name)
    lake.undrop(name)
    yield "brought back", lake.table(name)


def published_versions(table: lw.Table) -> list[int]:
    """Versions of a Delta table that its published log leads to, and that can still be read."""
    names = [path.name for path in (Path(table.location) / "_delta_log").iterdir()]
    starts = [int(n[:20]) for n in names if ".checkpoint." in n]
    first = 0 if f"{0:020d}.json" in names else min(starts)
    return [v for v in range(first, table.version + 1) if is_readable(table, v)]


def is_readable(table: lw.Table, version: int) -> bool:
    """Whether a version was not vacuumed."""
    try:
        table.at(version=version).to_arrow()
    except lw.errors.VersionNotFound:
        return False
    return True
