"""Damage done to a lake for real: in the rows of its store, and in the files of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakeward as lw
from lakeward.log.statement import Statement
from lakeward.maintain.doctor import Finding, Report
from tests.support.inside import context_of

T = "shop.orders"
"""The table that most tests damage."""


def fill(lake: lw.Lake, name: str = T, *, versions: int = 3) -> None:
    """A table with an append to each version."""
    lake.create(name, {"id": "int64", "region": "string"}, partition_by=["region"])
    for number in range(versions):
        with lake.transaction() as tx:
            rows = [{"id": number * 10 + n, "region": "ns"[n % 2]} for n in range(10)]
            tx.append(name, rows)


def run_sql(lake: lw.Lake, sql: str, **params: Any) -> int:
    """Change the store past Lakeward; how many rows were changed."""
    with context_of(lake).database.write() as session:
        return session.run(Statement(sql), params)


def log_file(lake: lw.Lake, version: int, name: str = T) -> Path:
    """The published file of a version."""
    return Path(lake.table(name).location) / "_delta_log" / f"{version:020d}.json"


def data_file(lake: lw.Lake, name: str = T) -> Path:
    """One of a table's live data files."""
    table = lake.table(name)
    return Path(table.location) / table.files()[0].path


def look(lake: lw.Lake, *tables: str) -> Report:
    """Examine the lake, or only some tables."""
    return lake.doctor(tables=tables or None)


def codes(report: Report) -> set[str]:
    """The kinds of errors and warnings."""
    return {f.code for f in report.findings if f.severity.value != "info"}


def the(report: Report, code: str) -> Finding:
    """The only finding of a kind."""
    (found,) = [f for f in report.findings if f.code == code]
    return found
