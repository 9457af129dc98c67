"""Writes `docs/mistakes.md`: mistakes that users make, and what Lakeward prints::

.venv/bin/python -m tests.docs.mistakes_page
"""

from __future__ import annotations

import datetime as dt
import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from typer.testing import CliRunner

import lakeward as lw
from lakeward.cli.main import app
from lakeward.engines.spark.parse_statement import read_statement
from lakeward.model.commands import read_command
from tests.docs.mistakes import FILES, SECTIONS
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "mistakes.md"
_HOME: Final = "/home/anna"
_TOP: Final = """\
# Mistakes and messages

What Lakeward prints when something is wrong: what happened, where, and what to do. None of these \
mistakes changes a table. A test makes them all and compares what they print with this page; \
`.venv/bin/python -m tests.docs.mistakes_page` writes it anew.

In each example `lake` is an open lake and `tx` an open transaction of it; `np`, `pa`, `pd` and \
`pl` are NumPy, pyarrow, pandas and Polars. The tables are

```text
sales.orders   {orders}
sales.walls    at timestamp_ntz
sales.lists    tags list<string>
```

where `quantity` must not be negative; `orders` is the first of them, `row` is a row that fits it \
and `frame` a pandas frame of two such rows. On the command line, `LAKEWARD_LAKE` names the lake.
"""
_ORDERS: Final = (
    "id bigint not null, name varchar, quantity int, price decimal(10,2), day date, at timestamp"
)
_ROW: Final[dict[str, Any]] = {
    "id": 1,
    "name": "anna",
    "quantity": 1,
    "price": Decimal("9.90"),
    "day": dt.date(2026, 11, 16),
    "at": dt.datetime(2026, 11, 16, 8, tzinfo=dt.UTC),
}


def render() -> str:
    """The page, with what each mistake prints now."""
    parts = [_TOP.format(orders=_ORDERS)]
    with _place() as directory, lw.open(directory / "lake") as lake:
        _fill(lake)
        for title, mistakes in SECTIONS.items():
            parts.append(f"\n## {title}\n")
            for written in mistakes:
                said = _plain(
                    _made(written, lake, directory, on_spark="on Spark" in title), directory
                )
                prompt = written if written.startswith("$") else _prompted(written)
                language = "text" if written.startswith("$") else "pycon"
                parts.append(f"\n```{language}\n{prompt}\n{said}\n```\n")
        versions = {t.name: t.version for t in lake.tables()}
    assert versions == {"sales.lists": 0, "sales.orders": 1, "sales.walls": 0}, versions
    return "".join(parts)


@contextmanager
def _place() -> Iterator[Path]:
    """An empty directory with the files of the mistakes, which is the working directory."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary).resolve()
        os.chdir(directory)
        for name, text in FILES.items():
            (directory / name).write_text(text)
        try:
            yield directory
        finally:
            os.chdir(before)


def _fill(lake: lw.Lake) -> None:
    lake.create("sales.orders", _ORDERS, constraints={"not_negative": "quantity >= 0"})
    lake.create("sales.walls", "at timestamp_ntz")
    lake.create("sales.lists", "tags list<string>")
    with lake.transaction() as tx:
        tx.append("sales.orders", [_ROW, {**_ROW, "id": 2}])


def _made(written: str, lake: lw.Lake, directory: Path, *, on_spark: bool) -> str:
    """What a mistake prints."""
    if written.startswith("$"):
        return _told(written, directory)
    tx = lake.transaction()
    names: dict[str, Any] = {
        "lw": lw,
        "lake": lake,
        "tx": tx,
        "dt": dt,
        "Decimal": Decimal,
        "np": np,
        "pa": pa,
        "pd": pd,
        "pl": pl,
        "orders": lake.table("sales.orders"),
        "row": dict(_ROW),
        "frame": pd.DataFrame([_ROW, {**_ROW, "id": 2}]),
    }
    try:
        if on_spark:
            # What refuses these needs no Spark.
            names["tx"] = SimpleNamespace(
                sql=lambda text: read_command(text) or read_statement(text)
            )
        exec(written, names)
    except Exception as error:  # noqa: BLE001  whatever a mistake raises is shown
        kind = type(error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        return f"{module}{kind.__name__}: {error}"
    finally:
        if tx.is_open:
            tx.rollback()
    message = f"this is no mistake: {written}"
    raise AssertionError(message)


def _told(written: str, directory: Path) -> str:
    """What a command prints that must fail."""
    arguments = shlex.split(written.removeprefix("$ lakeward "))
    around = {"LAKEWARD_LAKE": str(directory / "lake"), "COLUMNS": "120", "NO_COLOR": "1"}
    result = CliRunner(env=around).invoke(app, arguments)
    assert result.exit_code, f"this is no mistake: {written}"
    lines = [line.rstrip() for line in result.output.strip().splitlines()]
    return "\n".join(lines)


def _prompted(written: str) -> str:
    first, *others = written.splitlines()
    inside = ["..." if line.startswith((" ", "try", "except")) else ">>>" for line in others]
    return "\n".join([f">>> {first}", *(f"{p} {o}" for p, o in zip(inside, others, strict=True))])


def _plain(said: str, directory: Path) -> str:
    """The text without what differs from run to run."""
    said = said.replace(str(directory), _HOME)
    said = re.sub(
        r"\b20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,}\S*", "2026-11-16T08:15:00Z", said
    )
    return re.sub(r"\b[0-9a-f]{32}\b", "01a1e58956d1…", said)


if __name__ == "__main__":
    PAGE.write_text(render())
