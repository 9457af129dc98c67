"""A query that is run again is planned anew over what the tables are then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import lakeward as lw


@pytest.mark.parametrize("engine", ["datafusion", "duckdb"])
def test_the_same_text_sees_new_rows_and_new_columns(lake: lw.Lake, engine: str) -> None:
    table = lake.create("t", "id int64, v int64")
    table.append([{"id": 1, "v": 1}])
    query = "SELECT * FROM t WHERE v >= 1 ORDER BY id"
    assert lake.sql(query, engine=engine).to_pylist() == [{"id": 1, "v": 1}]
    table.append([{"id": 2, "v": 2}])
    assert len(lake.sql(query, engine=engine).to_pylist()) == 2
    table.alter().rename_column("v", "old").add_column("v", "int64").commit()
    assert lake.sql(query, engine=engine).to_pylist() == []
    table.append([{"id": 3, "old": 0, "v": 5}])
    assert lake.sql(query, engine=engine).to_pylist() == [{"id": 3, "old": 0, "v": 5}]


def test_queries_in_threads_and_open_results_do_not_meet(lake: lw.Lake) -> None:
    for name in "ab":
        lake.create(name, "id int64").append([{"id": ord(name)}])
    first = lake.sql("SELECT id FROM a", engine="duckdb").to_reader()
    with ThreadPoolExecutor(4) as pool:
        asked = ["SELECT id FROM a", "SELECT id FROM b"] * 8
        found = list(pool.map(lambda q: lake.sql(q, engine="duckdb").to_pylist(), asked))
    assert found == [[{"id": 97}], [{"id": 98}]] * 8
    assert first.read_all().to_pylist() == [{"id": 97}]
