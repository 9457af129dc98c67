"""The doctor finds files in partitions that their rows do not belong to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import lakeward as lw
from lakeward.maintain.doctor import Severity
from tests.maintain.damage import codes, look, run_sql, the

COLUMNS = {"id": "int64", "ts": "timestamp", "name": "string"}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
WRONG = {
    "year(ts)": "2025",
    "month(ts)": '"2026-02"',
    "day(ts)": "20512",
    "hour(ts)": '"2026-03-01-11"',
    "bucket(8, id)": "99",
    "truncate(2, name)": '"xx"',
    "truncate(10, id)": "10",
}
ICEBERG = {"year(ts)": "55", "month(ts)": "673", "day(ts)": "20512", "hour(ts)": "492311"}


def fill(lake: lw.Lake, table_format: str, term: str) -> None:
    lake.create("t", COLUMNS, format=table_format, partition_by=[term])
    with lake.transaction() as tx:
        tx.append(
            "t", [{"id": 7, "ts": NOON + timedelta(minutes=n), "name": "abc"} for n in (0, 5)]
        )


def file_elsewhere(lake: lw.Lake, value: str) -> None:
    """Change the partition value in the log, as a writer in another zone would have had it."""
    (own_id,) = lake.table("t").files()[0].partition
    wrong = f'{{"{own_id}":{value}}}'
    assert run_sql(lake, "UPDATE lakeward_file SET partition = :wrong", wrong=wrong) == 1


@pytest.mark.parametrize(
    ("table_format", "term", "value"),
    [
        *(("delta", term, value) for term, value in WRONG.items()),
        *(("iceberg", term, value) for term, value in (WRONG | ICEBERG).items()),
    ],
)
def test_a_file_in_a_partition_that_its_rows_are_not_in_is_found(
    lake: lw.Lake, table_format: str, term: str, value: str
) -> None:
    fill(lake, table_format, term)
    assert codes(look(lake)) == set()
    file_elsewhere(lake, value)
    finding = the(look(lake), "derived-partition")
    assert finding.severity is Severity.ERROR
    assert finding.version == 1
    assert term in finding.what


def test_missing_values_in_a_partition_of_others_are_found(lake: lw.Lake) -> None:
    lake.create("t", COLUMNS, partition_by=["day(ts)"])
    with lake.transaction() as tx:
        tx.append("t", [{"id": 1, "ts": None, "name": None}])
    assert codes(look(lake)) == set()
    file_elsewhere(lake, WRONG["day(ts)"])
    assert "ts" in the(look(lake), "derived-partition").what


def test_what_the_finding_says_to_do_brings_the_rows_back(lake: lw.Lake) -> None:
    fill(lake, "delta", "day(ts)")
    run_sql(lake, "DELETE FROM lakeward_file_stat")
    file_elsewhere(lake, WRONG["day(ts)"])
    where = "ts >= TIMESTAMP '2026-03-01 12:00:00Z'"
    assert lake.table("t").to_arrow(where=where).num_rows == 0, "the rows are hidden"
    assert "without the column ts_day" in (the(look(lake), "derived-partition").mend or "")
    rows = lake.table("t").to_arrow().drop_columns(["ts_day"])
    with lake.transaction() as tx:
        tx.overwrite("t", rows)
    assert lake.table("t").to_arrow(where=where).num_rows == 2
    assert "derived-partition" not in codes(look(lake))
