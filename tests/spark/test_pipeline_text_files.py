"""Pipelines over CSV and JSON lines: declared columns, and a table for rows that do not parse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import lakeward as lw
from lakeward.pipeline import Pipeline, landing

DECLARED = "id BIGINT, price DECIMAL(6,2), name STRING, day DATE"
INSIDE = "ARRAY<STRUCT<price:DECIMAL(6,2),days:MAP<STRING,DATE>>>"
TABLE = "id int64, price decimal(6,2), name string, day date"


def test_rows_that_do_not_parse_go_to_a_table_of_their_own(
    spark: SparkSession, tmp_path: Path
) -> None:
    pipeline = Pipeline("texts")

    @pipeline.step("bronze.csv", schema=TABLE)
    def csv(rows: Any = landing("csv", format="csv", schema=DECLARED)) -> Any:
        return rows

    nested = "inside list<struct<price: decimal(6,2), days: map<string, date>>>"

    @pipeline.step("bronze.json", schema=f"{TABLE}, {nested}", format="iceberg")
    def json(
        rows: Any = landing("json", format="json", schema=f"{DECLARED}, inside {INSIDE}"),
    ) -> Any:
        return rows

    for name in ("csv", "json"):
        (tmp_path / "landing" / name).mkdir(parents=True)
    (tmp_path / "landing/csv/a.csv").write_text(
        "id,price,name,day\n"
        '1,1.50,"tea, with a ""cup""\nand more",2026-01-01\n'
        "x,2.50,word for a number,2026-01-01\n"
        "3,3.505,too many places,2026-01-01\n"
        "4,4.50\n"
        "5,,,\n"
        "6,6.50,no such day,2026-02-30\n"
        "99999999999999999999,1.00,too large,2026-01-01\n"
        "9,1.00,a moment,2026-01-01 23:59:59\n"
    )
    (tmp_path / "landing/csv/b.csv").write_text("Name,other,id\nreordered,z,8\n")
    (tmp_path / "landing/json/a.jsonl").write_text(
        '{"id": 1, "price": 1.5, "name": "tea", "day": "2026-01-01"}\n'
        "\n"
        '{"id": 2, "extra": {"a": 1}}\n'
        '{"id": "three"}\n'
        '{"id": 4, "price":\n'
        "[5]\n"
        '{"id": 6.5}\n'
        '{"id": 7, "price": 1.239}\n'
        '{"id": 8, "price": "1.239"}\n'
        '{"id": 9, "day": "2026-01-01T23:59:59"}\n'
        '{"id": 10, "inside": [{"price": 1.239}]}\n'
        '{"id": 11, "inside": [{"price": 1.240, "days": {"a": "2026-01-01"}}]}\n'
        '{"id": 12, "inside": [{"days": {"a": "2026-01-01T01:00:00"}}]}\n'
        '{"id": 13, "price": "9999.99", "day": "2026-01-01T00:00:00.000Z"}\n'
    )
    with lw.open(tmp_path / "lake") as lake:
        result = pipeline.run(lake, spark, landing=str(tmp_path / "landing"))

        def rows(name: str, *columns: str) -> list[tuple[Any, ...]]:
            found = lake.table(name).to_arrow().to_pylist()
            return sorted(tuple(str(row[c]) for c in columns) for row in found)

        assert rows("bronze.csv", "id", "price", "name", "day") == [
            ("1", "1.50", 'tea, with a "cup"\nand more', "2026-01-01"),
            ("5", "None", "None", "None"),
            ("8", "None", "reordered", "None"),
        ]
        assert rows("bronze.csv__rejected", "_reason", "_record") == [
            ("day is no date", "6,6.50,no such day,2026-02-30"),
            ("day is no date", "9,1.00,a moment,2026-01-01 23:59:59"),
            ("id is no bigint", "99999999999999999999,1.00,too large,2026-01-01"),
            ("id is no bigint", "x,2.50,word for a number,2026-01-01"),
            ("it has not 4 fields", "4,4.50"),
            ("price is no decimal(6,2)", "3,3.505,too many places,2026-01-01"),
        ]
        assert rows("bronze.json", "id", "price", "name") == [
            ("1", "1.50", "tea"),
            ("11", "None", "None"),
            ("13", "9999.99", "None"),
            ("2", "None", "None"),
        ]
        why = "it is no JSON object of the declared types"
        nested = f"inside is no {INSIDE.lower()}"
        assert rows("bronze.json__rejected", "_reason", "_record") == [
            ("day is no date", '{"id": 9, "day": "2026-01-01T23:59:59"}'),
            (nested, '{"id": 10, "inside": [{"price": 1.239}]}'),
            (nested, '{"id": 12, "inside": [{"days": {"a": "2026-01-01T01:00:00"}}]}'),
            (why, "[5]"),
            (why, '{"id": "three"}'),
            (why, '{"id": 4, "price":'),
            (why, '{"id": 6.5}'),
            ("price is no decimal(6,2)", '{"id": 7, "price": 1.239}'),
            ("price is no decimal(6,2)", '{"id": 8, "price": "1.239"}'),
        ]
        aside = lake.table("bronze.csv__rejected").to_arrow()
        assert set(aside["_transaction"].to_pylist()) == {result.run_id}
        assert all(f.endswith("/a.csv") for f in aside["_file"].to_pylist())
        told = {(n.table, n.kind): (n.count, n.sample) for n in result.notices}
        assert told["bronze.csv", "rows_rejected"][0] == 6
        assert told["bronze.json", "rows_rejected"][0] == 9
        assert told["bronze.csv", "columns_not_read"] == (1, ("other",))
        assert told["bronze.csv", "columns_missing"] == (1, ("b.csv",))
        assert told["bronze.json", "columns_not_read"] == (1, ("extra",))
        assert not pipeline.run(lake, spark, landing=str(tmp_path / "landing")).committed
