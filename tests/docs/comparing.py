"""Runs the programs of `examples/compare` for one tool and prints what became of each, as JSON.

`comparing.py TOOL PROGRAMS`, with the Python of the tool's own environment, in an empty directory.
Every program begins with the same rows in a table `orders` and an empty table `sums`, and two CSV
files; those that only read find one more commit.
"""

from __future__ import annotations

import contextlib
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
FIRST: Rows = [{"id": 1, "amount": 10.0}, {"id": 2, "amount": 20.0}]
MORE: Rows = [{"id": 5, "amount": 50.0}, {"id": 6, "amount": 60.0}]
READS = ("to_pandas", "to_polars", "history", "diff")
CATALOG = "sqlite:///catalog.db"


class Lakeward:
    """Tables of a lake in a directory."""

    def __init__(self, rows: list[Rows]) -> None:
        import lakeward as lw

        with lw.open("lake") as lake:
            for name in ("orders", "sums"):
                lake.create(name, {"id": "int64", "amount": "double"})
            for some in rows:
                with lake.transaction() as tx:
                    tx.append("orders", some)

    def read(self, name: str) -> Rows:
        """What is in a table."""
        import lakeward as lw

        return lw.open("lake").table(name).to_arrow().to_pylist()

    def commits(self, answer: Any) -> int:
        """How many commits of rows a history shows."""
        return sum(version.operation == "WRITE" for version in answer)

    def changes(self, answer: Any) -> list[int]:
        """How many rows came and went."""
        return [answer.rows_added, answer.rows_removed]


class Deltalake:
    """Delta tables in directories."""

    def __init__(self, rows: list[Rows]) -> None:
        import pyarrow as pa
        from deltalake import DeltaTable, write_deltalake

        schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
        for name in ("orders", "sums"):
            feed = {"delta.enableChangeDataFeed": "true"}
            DeltaTable.create(name, schema, configuration=feed)
        for some in rows:
            write_deltalake("orders", pa.Table.from_pylist(some), mode="append")

    def read(self, name: str) -> Rows:
        """What is in a table."""
        from deltalake import DeltaTable

        return DeltaTable(name).to_pyarrow_table().to_pylist()

    def commits(self, answer: Any) -> int:
        """How many commits of rows a history shows."""
        return sum(version["operation"] == "WRITE" for version in answer)

    def changes(self, answer: Any) -> list[int]:
        """How many rows came and went."""
        import pyarrow as pa

        kinds = pa.table(answer)["_change_type"].to_pylist()
        return [kinds.count("insert"), kinds.count("delete")]


class Pyiceberg:
    """Iceberg tables of a catalog in SQLite."""

    def __init__(self, rows: list[Rows]) -> None:
        import pyarrow as pa
        from pyiceberg.catalog.sql import SqlCatalog

        schema = pa.schema([("id", pa.int64()), ("amount", pa.float64())])
        catalog = SqlCatalog("lake", uri=CATALOG, warehouse=f"file://{Path.cwd()}/files")
        catalog.create_namespace("sales")
        for name in ("orders", "sums"):
            catalog.create_table(f"sales.{name}", schema)
        for some in rows:
            catalog.load_table("sales.orders").append(pa.Table.from_pylist(some))

    def read(self, name: str) -> Rows:
        """What is in a table."""
        from pyiceberg.catalog.sql import SqlCatalog

        return (
            SqlCatalog("lake", uri=CATALOG)
            .load_table(f"sales.{name}")
            .scan()
            .to_arrow()
            .to_pylist()
        )

    def commits(self, answer: Any) -> int:
        """How many commits of rows a history shows."""
        return sum(snapshot["operation"] == "append" for snapshot in answer)

    def changes(self, answer: Any) -> list[int]:
        """How many rows came and went."""
        kinds = list(answer["_merge"])
        return [kinds.count("right_only"), kinds.count("left_only")]


class Ducklake:
    """Tables of a DuckLake whose catalog is a DuckDB file."""

    def __init__(self, rows: list[Rows]) -> None:
        import duckdb
        import duckdb_extensions

        # What DuckDB does by itself where it can reach its server.
        duckdb_extensions.import_extension("ducklake")
        with duckdb.connect("ducklake:lake.ducklake") as lake:
            for name in ("orders", "sums"):
                lake.execute(f"CREATE TABLE {name} (id BIGINT, amount DOUBLE)")
            for some in rows:
                for_all = ", ".join(f"({row['id']}, {row['amount']})" for row in some)
                lake.execute(f"INSERT INTO orders VALUES {for_all}")

    def read(self, name: str) -> Rows:
        """What is in a table."""
        import duckdb

        with duckdb.connect("ducklake:lake.ducklake") as lake:
            return lake.sql(f"FROM {name}").to_arrow_table().to_pylist()

    def commits(self, answer: Any) -> int:
        """How many commits of rows a history shows."""
        kinds = [str(snapshot["changes"]) for snapshot in answer.to_dicts()]
        return sum("insert" in kind for kind in kinds)  # small ones are kept in the catalog

    def changes(self, answer: Any) -> list[int]:
        """How many rows came and went."""
        kinds = list(answer["change_type"])
        return [kinds.count("insert"), kinds.count("delete")]


TOOLS: dict[str, Callable[[list[Rows]], Any]] = {
    "lakeward": Lakeward,
    "deltalake": Deltalake,
    "pyiceberg": Pyiceberg,
    "ducklake": Ducklake,
}


def ran(tool: str, program: Path) -> Any:
    """What a program answers, or the rows that it leaves."""
    task = program.parent.name
    Path(tool, task).mkdir(parents=True)
    with contextlib.chdir(f"{tool}/{task}"):
        made = TOOLS[tool]([FIRST, MORE] if task in READS else [FIRST])
        Path("new.csv").write_text("id,amount\n3,30.0\n4,40.0\n")
        Path("sums.csv").write_text("id,amount\n1,100.0\n")
        answer: Any = runpy.run_path(str(program)).get("answer")
        if task in ("to_pandas", "to_polars"):
            rows = answer.to_dicts() if task == "to_polars" else answer.to_dict("records")
            return [type(answer).__module__.partition(".")[0], _sorted(rows)]
        if task == "history":
            return made.commits(answer)
        if task == "diff":
            return made.changes(answer)
        return [_sorted(made.read(name)) for name in ("orders", "sums")]


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=lambda row: row["id"])


if __name__ == "__main__":
    programs = Path(sys.argv[2])
    print(
        json.dumps(
            {
                program.parent.name: ran(sys.argv[1], program)
                for program in sorted(programs.glob(f"*/{sys.argv[1]}.py"))
            }
        )
    )
