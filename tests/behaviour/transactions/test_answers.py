"""What transactions answer: rows per operation, the result of a block, the value of a function."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward import RowChanges
from lakeward.errors import TableNotFound
from tests.behaviour.lakes import append


def test_each_operation_tells_the_rows(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    for start in (0, 10):
        append(lake, "t", {"id": list(range(start, start + 10))})

    with lake.transaction() as tx:
        assert tx.append("t", {"id": [100, 101]}) == RowChanges(inserted=2)
        assert tx.append("t", {"id": []}) == RowChanges()
        assert tx.delete("t", where="id in (1, 100)") == RowChanges(
            deleted=2, files_touched=2, files_skipped=1
        )
        assert tx.delete("t", where="id = 555").deleted == 0
        assert tx.update("t", set={"id": "id + 1000"}, where="id = 2").updated == 1
        assert tx.merge("t", [{"id": 3}, {"id": 77}], on="id").inserted == 1
        done = tx.overwrite("t", {"id": [15]}, where="id between 10 and 19")
        assert (done.inserted, done.deleted) == (1, 10)
        done = tx.overwrite("t", {"id": [1, 2, 3]})
        assert (done.inserted, done.deleted, done.files_skipped) == (3, 12, 0)

    assert lake.table("t").count() == 3


@pytest.mark.formats("delta")
def test_rows_of_files_without_counts_are_not_guessed(lake: lw.Lake, tmp_path) -> None:  # type: ignore[no-untyped-def]
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    place = tmp_path / "adopted"
    (place / "_delta_log").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2, 3]}), place / "f.parquet")
    schema = {
        "type": "struct",
        "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}],
    }
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-0000-0000-000000000001",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 0,
            }
        },
        {
            "add": {
                "path": "f.parquet",
                "partitionValues": {},
                "size": (place / "f.parquet").stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        },
    ]
    lines = "\n".join(json.dumps(a) for a in actions)
    (place / "_delta_log" / f"{0:020}.json").write_text(lines)
    table = lake.adopt("t", place)

    assert (table.totals().rows, table.count(), table.count("id > 1")) == (None, 3, 2)
    with lake.transaction() as tx:
        assert tx.overwrite("t", {"id": [9]}).deleted is None
    assert table.count() == 1


def test_the_result_of_a_block_is_kept(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    with lake.transaction() as tx:
        assert tx.result is None
        tx.append("t", {"id": [1]})
    assert tx.result is not None
    assert tx.result.versions == {"t": 1}
    assert tx.commit() is tx.result

    failed = lake.transaction()
    with pytest.raises(TableNotFound), failed:
        failed.append("none", {"id": [1]})
    assert failed.result is None


def test_run_gives_what_its_function_returned(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    result = lake.run(lambda tx: tx.append("t", {"id": [1, 2]}))

    assert result.value == RowChanges(inserted=2)
    assert result.versions == {"t": 1}
    assert lake.run(lambda tx: tx.read("t").num_rows).value == 2
    assert lake.run(lambda tx: None).value is None


def test_run_gives_the_value_of_the_attempt_that_was_committed(lake: lw.Lake) -> None:
    lake.create("t", {"id": "int64"})
    append(lake, "t", {"id": [1]})
    seen: list[int] = []

    def work(tx: lw.Transaction) -> int:
        seen.append(tx.read("t").num_rows)
        tx.delete("t", where="id = 1")
        if len(seen) == 1:
            append(lake, "t", {"id": [1]})
        return seen[-1]

    result = lake.run(work)

    assert (result.value, result.attempts, seen) == (2, 2, [1, 2])


def test_a_change_by_one_call_tells_the_rows(lake: lw.Lake) -> None:
    table = lake.create("t", {"id": "int64"})

    assert table.append({"id": [1, 2, 3]}).value == RowChanges(inserted=3)
    assert table.delete(where="id > 1").value.deleted == 2
