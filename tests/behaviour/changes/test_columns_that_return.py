"""Changes across a column that was dropped and came back by a restore."""

from __future__ import annotations

import pytest

import lakeward as lw
from tests.support.applying import applied, rows_in


@pytest.mark.apart
def test_changes_tell_that_values_go_and_come_with_their_column(
    lake: lw.Lake, table_format: str
) -> None:
    properties = {"delta.columnMapping.mode": "name"} if table_format == "delta" else None
    table = lake.create("t", "id int64, v int64", format=table_format, properties=properties)
    table.append([{"id": 1, "v": 10}, {"id": 2, "v": None}])
    table.alter().drop_column("v").commit()
    table.append([{"id": 3}])
    with lake.transaction() as tx:
        tx.restore("t", version=1)

    returned = table.changes(since=4, until=4).read_all().select(["_change_type", "id", "v"])
    assert sorted(map(str, returned.to_pylist())) == [
        "{'_change_type': 'delete', 'id': 1, 'v': None}",
        "{'_change_type': 'delete', 'id': 3, 'v': None}",
        "{'_change_type': 'insert', 'id': 1, 'v': 10}",
    ]
    for since in range(table.version):
        changes = table.changes(since=since + 1, until=table.version).read_all()
        before = rows_in(table, since, table.version)
        assert applied(before, changes) == rows_in(table, table.version, table.version)
