"""Joins on DataFusion: sides are swapped where that saves memory, and never for outer joins."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.sql.datafusion import DataFusionSession
from lakeward.engines.sql.source import PlainFiles, Source
from lakeward.model.parameters import Bound

pytestmark = [pytest.mark.formats("delta"), pytest.mark.local]

_OUTER = "SELECT s.k FROM {big} b RIGHT JOIN {small} s ON s.k = b.k WHERE b.k IS NULL ORDER BY 1"
_CASES = {
    _OUTER: list(range(5)),
    "SELECT s.k FROM {small} s LEFT JOIN {big} b ON s.k = b.k WHERE b.k IS NULL ORDER BY 1": list(
        range(5)
    ),
    "SELECT count(*) FROM {big} b FULL JOIN {small} s ON s.k = b.k WHERE b.k IS NULL": [5],
    "SELECT count(*) FROM {big} b JOIN {small} s ON s.k = b.k": [5],
    "SELECT count(*) FROM {big} WHERE k IN (SELECT k FROM {small})": [5],
    "SELECT count(*) FROM {small} s WHERE NOT EXISTS (SELECT 1 FROM {big} b WHERE b.k = s.k)": [5],
    "SELECT count(*) FROM {small} s WHERE (SELECT max(b.k) FROM {big} b WHERE b.k = s.k) IS NULL": [
        5
    ],
}


@pytest.fixture
def names(shared_lake: lw.Lake, name: str) -> dict[str, str]:
    """The names of a small and a big table."""
    found = {"small": f"{name}_small", "big": f"{name}_big"}
    for which, ids in (("small", range(10)), ("big", range(5, 3000))):
        rows = pa.table({"k": pa.array(ids, pa.int64())})
        shared_lake.create(found[which], like=rows).append(rows)
    return found


@pytest.mark.parametrize("query", _CASES)
def test_joins_of_all_kinds_return_the_right_rows(
    shared_lake: lw.Lake, names: dict[str, str], query: str
) -> None:
    rows = shared_lake.sql(query.format(**names)).to_arrow()
    assert rows.column(0).to_pylist() == _CASES[query]


def test_the_smaller_table_is_held_in_memory_unless_a_join_is_an_outer_one(
    shared_lake: lw.Lake, names: dict[str, str]
) -> None:
    session = DataFusionSession()
    for short, table in names.items():
        found = shared_lake.table(table)
        path = f"{found.location.removeprefix('file://')}/{found.files()[0].path}"
        none = pa.schema([("k", pa.int64())])
        session.register(short, Source(none, lambda: None, PlainFiles([path])))

    def first_read(query: str) -> str:
        """Return the file of the table that the join holds in memory."""
        text = query.format(small="small", big="big")
        plan = session.run(Bound(text, {}))._frame.execution_plan().display_indent()
        which = {s.files()[0].path: n for n, s in tables.items()}
        return min(which.items(), key=lambda found: plan.index(found[0]))[1]

    tables = {short: shared_lake.table(table) for short, table in names.items()}
    inner = "SELECT b.k FROM {big} b JOIN {small} s ON s.k = b.k"
    assert first_read(inner) == "small"
    assert first_read(_OUTER) == "big"
    assert first_read(inner) == "small"
