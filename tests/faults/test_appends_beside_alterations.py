"""Processes that append and read go on while a table is altered: none of them fails."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from tests.support import processes
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow
_WRITERS = 2


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@sizes("changes", short=8, full=200)
def test_no_append_and_no_read_fails_while_a_table_is_altered(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], table_format: str, changes: int
) -> None:
    with make_lake() as lake:
        table = lake.create("t", "id int64, note string", format=table_format)
        workers = [
            processes.start(append_until_told, lake_target, number) for number in range(_WRITERS)
        ]
        for number in range(changes):
            with lake.transaction() as tx:
                alter = tx.alter("t").add_column(f"c{number}", "string")
                if number:
                    alter.rename_column(f"c{number - 1}", f"d{number}")
                if number > 1:
                    alter.drop_column(f"d{number - 1}")
            found = table.to_arrow()
            assert found.num_columns == len(table.at(version=table.version).schema)
        for worker in workers:
            worker.tell("stop")
        told = [id_ for worker in workers for kind, id_ in worker.finish() if kind == "appended"]
        assert told
        assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == sorted(told)
        for version in range(table.version + 1):
            at = table.at(version=version)
            assert at.to_arrow().column_names == at.schema.names


def append_until_told(pipe: Connection, target: LakeTarget, number: int) -> None:
    """Append rows of two columns, whatever others the table has, until told to stop."""
    with target.open() as lake:
        table, id_ = lake.table("t"), number * 1_000_000
        while not pipe.poll():
            table.append([{"id": id_, "note": "x"}])
            pipe.send(("appended", id_))
            id_ += 1
