"""Processes that append and read go on while a table is altered: none of them fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection

import pytest

import lakeward as lw
from tests.support import processes
from tests.support.sizes import sizes
from tests.support.target import LakeTarget

pytestmark = pytest.mark.slow
_FEW = 50
"""Up to so many changes, one process reads and two append; beyond, four of each."""


@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
@sizes("changes", short=8, full=200)
def test_no_append_and_no_read_fails_while_a_table_is_altered(
    lake_target: LakeTarget, make_lake: Callable[[], lw.Lake], table_format: str, changes: int
) -> None:
    with make_lake() as lake:
        table = lake.create("t", "id int64, note string", format=table_format)
        few = changes < _FEW
        workers = [
            processes.start(append_until_told, lake_target, number)
            for number in range(2 if few else 4)
        ]
        readers = [processes.start(read_until_told, lake_target) for _ in range(1 if few else 4)]
        for worker in (*workers, *readers):
            worker.hear()  # all are at work before the first change
        for number in range(changes):
            with lake.transaction() as tx:
                alter = tx.alter("t").add_column(f"c{number}", "string")
                if number:
                    alter.rename_column(f"c{number - 1}", f"d{number}")
                if number > 1:
                    alter.drop_column(f"d{number - 1}")
            for worker in (*workers, *readers):
                # A full pipe would make it wait.
                while worker.pipe.poll():
                    worker.hear()
            if few or number % 10 == 0:
                found = table.to_arrow()
                assert found.num_columns == len(table.at(version=table.version).schema)
        for worker in (*workers, *readers):
            worker.tell("stop")
        reads = [message for reader in readers for message in reader.finish()]
        assert [reader.process.exitcode for reader in readers] == [0] * len(readers)
        assert len(reads) >= len(readers)
        told = [id_ for worker in workers for kind, id_ in worker.finish() if kind == "appended"]
        assert told
        assert [worker.process.exitcode for worker in workers] == [0] * len(workers)
        assert sorted(table.to_arrow(columns=["id"])["id"].to_pylist()) == sorted(told)
        step = 1 if few else max(1, table.version // 50)
        for version in range(0, table.version + 1, step):
            at = table.at(version=version)
            assert at.to_arrow().column_names == at.schema.names
        if not few:
            shown = f"{changes} changes, {len(told)} appends, {len(reads)} reads"
            store = "postgres" if lake_target.is_postgres else "sqlite"
            print(f"\n{table_format} on {store}: {shown}")


def append_until_told(pipe: Connection, target: LakeTarget, number: int) -> None:
    """Append rows of two columns, whatever others the table has, until told to stop."""
    with target.open() as lake:
        table, id_ = lake.table("t"), number * 1_000_000
        while not pipe.poll():
            table.append([{"id": id_, "note": "x"}])
            pipe.send(("appended", id_))
            id_ += 1
            # Readers have to open every file.
            time.sleep(0.02)


def read_until_told(pipe: Connection, target: LakeTarget) -> None:
    """Read the newest version by its own schema until told to stop; no row is ever lost."""
    with target.open() as lake:
        known = 0
        while not pipe.poll():
            with lake.snapshot() as cut:
                at = cut.table("t")
                rows = at.to_arrow()
            assert rows.column_names == at.schema.names
            assert rows.num_rows >= known
            known = rows.num_rows
            pipe.send(("read", known))
            time.sleep(0.02)
