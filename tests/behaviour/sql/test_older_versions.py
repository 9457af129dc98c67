"""The forms of VERSION and TIMESTAMP AS OF are the same for every engine."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput

both_engines = pytest.mark.parametrize("engine", ["datafusion", "duckdb"])


@both_engines
def test_moments_are_seconds_too_and_versions_may_be_quoted(lake: lw.Lake, engine: str) -> None:
    table = lake.create("t", "id int64")
    table.append([{"id": 1}])
    seconds = int(table.history(limit=1)[0].timestamp.timestamp()) + 1
    text = "SELECT count(*) AS n FROM t"
    for place, rows in (("VERSION AS OF '0'", 0), (f"TIMESTAMP AS OF {seconds}", 1)):
        assert lake.sql(f"{text} {place}", engine=engine).to_pylist() == [{"n": rows}]
        with lake.transaction() as tx:
            assert tx.sql(f"{text} {place}").to_pylist() == [{"n": rows}]
    found = lake.sql(f"{text} TIMESTAMP AS OF :at", {"at": seconds}, engine=engine)
    assert found.to_pylist() == [{"n": 1}]
    with pytest.raises(InvalidInput):
        lake.sql(f"{text} TIMESTAMP AS OF 1.5", engine=engine)
