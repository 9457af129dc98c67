"""Tables of others with generated columns: known transforms prune and are written, others not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from tests.behaviour.lakes import append, delete, ids, unchanged

EXPRESSION = "delta.generationExpression"


def moment(day: int, hour: int) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


def theirs(where: Path, expression: str, kind: str = "date") -> Path:
    """A table of delta-rs with a generated partition column `g`, and two rows in it."""
    fields = [
        Field("id", PrimitiveType("long")),
        Field("ts", PrimitiveType("timestamp")),
        Field("g", PrimitiveType(kind), metadata={EXPRESSION: expression}),
    ]
    DeltaTable.create(where, Schema(fields), partition_by=["g"])
    write_deltalake(where, rows([(1, moment(1, 23)), (2, moment(5, 1))]), mode="append")
    return where


def rows(values: list[tuple[int, datetime]]) -> pa.Table:
    times = pa.array([v for _, v in values], pa.timestamp("us", "UTC"))
    return pa.table({"id": [i for i, _ in values], "ts": times})


def test_a_known_expression_is_a_transform(lake: lw.Lake, tmp_path: Path) -> None:
    table = lake.adopt("taken", theirs(tmp_path / "t", "CAST(ts AS DATE)"))

    assert table.partition_by == ["day(ts)"]
    assert append(lake, "taken", [{"id": 3, "ts": moment(6, 3)}]) == 3
    assert delete(lake, "taken", "ts = '2026-01-05 01:00:00'") == 4
    found = table.to_arrow(columns=["id", "g"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "g": date(2026, 1, 1)}, {"id": 3, "g": date(2026, 1, 6)}]


def test_an_unknown_expression_is_read_and_not_written(lake: lw.Lake, tmp_path: Path) -> None:
    where = theirs(tmp_path / "t", "CAST(ts AS DATE) + INTERVAL '0 days'", kind="timestamp")
    table = lake.adopt("taken", where)

    assert table.partition_by == ["g"]
    assert ids(lake, "taken", where="g >= '2026-01-02'") == [2]
    assert ids(lake, "taken", where="ts >= '2026-01-02'") == [2]
    with unchanged(lake), pytest.raises(UnsupportedFeature, match="the generated column g"):
        append(lake, "taken", [{"id": 3, "ts": moment(6, 3), "g": moment(6, 0)}])


def _without_statistics(where: Path) -> None:
    """As some writers leave them out: then the partition alone tells."""
    for log in sorted((where / "_delta_log").glob("*.json")):
        lines = [line for line in log.read_text().splitlines() if line]
        log.write_text("\n".join(_stripped(line) for line in lines) + "\n")


def _stripped(line: str) -> str:
    action: dict[str, Any] = json.loads(line)
    if "add" in action:
        action["add"].pop("stats", None)
    return json.dumps(action)


def test_moments_in_the_zone_of_another_writer_are_not_lost(lake: lw.Lake, tmp_path: Path) -> None:
    """A session in Kiribati files the evening of the first under the second."""
    where = theirs(tmp_path / "t", "CAST(ts AS DATE)")
    local = rows([(7, moment(1, 23))]).append_column("g", pa.array([date(2026, 1, 2)]))
    # Written as another engine would, past the check that delta-rs makes.
    _append_unchecked(where, local)
    _without_statistics(where)
    table = lake.adopt("taken", where)

    assert ids(lake, "taken", where="ts < '2026-01-02'") == [1, 7]
    assert ids(lake, "taken", where="ts = '2026-01-01 23:00:00'") == [1, 7]
    assert len(table.files(where="ts < '2026-01-02'")) == 2
    # What is kept of a file that is rewritten stays where its writer filed it.
    delete(lake, "taken", "id = 1")
    assert table.to_arrow(columns=["g"])["g"].to_pylist() == [date(2026, 1, 5), date(2026, 1, 2)]


def _append_unchecked(where: Path, data: pa.Table) -> None:
    day = data["g"][0].as_py()
    place = where / f"g={day}"
    place.mkdir(exist_ok=True)
    pq.write_table(data.drop_columns(["g"]), place / "theirs.parquet")
    add = {
        "path": f"g={day}/theirs.parquet",
        "partitionValues": {"g": str(day)},
        "size": (place / "theirs.parquet").stat().st_size,
        "modificationTime": 0,
        "dataChange": True,
    }
    log = where / "_delta_log"
    number = len(list(log.glob("*.json")))
    (log / f"{number:020d}.json").write_text(json.dumps({"add": add}) + "\n")


def test_patterns_that_delta_rs_writes_for_dates_are_not_lost(
    lake: lw.Lake, tmp_path: Path
) -> None:
    """It takes the pattern of Spark's DATE_FORMAT for a text."""
    where = theirs(tmp_path / "t", "DATE_FORMAT(ts, 'yyyy-MM')", kind="string")
    _without_statistics(where)
    table = lake.adopt("taken", where)

    assert table.partition_by == ["month(ts)"]
    assert set(table.to_arrow()["g"].to_pylist()) == {"yyyy-MM"}
    assert ids(lake, "taken", where="ts >= '2026-01-05'") == [2]
    assert ids(lake, "taken", where="ts = '2026-01-01 23:00:00'") == [1]


def test_an_open_table_of_ours_takes_rows_of_others(lake: lw.Lake) -> None:
    table = lake.create(
        "open", {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)"], guard=False
    )
    assert table.definition.protocol == {"minReaderVersion": 1, "minWriterVersion": 4}
    append(lake, "open", [{"id": 1, "ts": moment(1, 23)}])
    write_deltalake(table.location, rows([(2, moment(5, 1))]), mode="append")
    append(lake, "open", [{"id": 3, "ts": moment(6, 1)}])

    found = table.to_arrow(columns=["id", "ts_day"]).sort_by("id")["ts_day"].to_pylist()
    assert found == [date(2026, 1, 1), date(2026, 1, 5), date(2026, 1, 6)]
    assert ids(lake, "open", where="ts >= '2026-01-04'") == [2, 3]
    assert len(table.files(where="ts >= '2026-01-04'")) == 2


def test_the_guard_makes_nothing_sure_of_what_others_wrote_before(lake: lw.Lake) -> None:
    table = lake.create("open", {"id": "int64", "ts": "timestamp"}, partition_by=["day(ts)"])
    (own,) = table.definition.derived.values()
    copy = lake.create("copy", table.schema, partition_by=["day(ts)"], guard=False)
    location = copy.location
    lake.drop("copy")
    taken = lake.adopt("taken", location)

    (found,) = taken.definition.derived.values()
    assert own.utc
    assert taken.guarded
    assert not found.utc
