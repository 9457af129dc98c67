"""Functions of a Hamilton graph that reads two tables of a lake and writes two."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from hamilton.function_modifiers import load_from, save_to, source, value

import lakeward.integrations.hamilton  # noqa: F401  makes `lake` known to Hamilton

CALLS: list[str] = []


@load_from.lake(table=source("orders"), columns=value(["id", "amount"]))
def paid(rows: pa.Table) -> pa.Table:
    CALLS.append("paid")
    return rows


@load_from.lake(table=source("limits"))
def least(frame: pd.DataFrame) -> int:
    CALLS.append("least")
    return int(frame["least"].max())


@save_to.lake(target=source("big_orders"), mode=value("overwrite"), output_name_="big_saved")
def big(paid: pa.Table, least: int) -> pa.Table:
    CALLS.append("big")
    return paid.filter(pc.field("amount") >= least)


@save_to.lake(
    target=source("totals"), mode=value("upsert"), on=value("k"), output_name_="total_saved"
)
def total(big: pa.Table, divisor: int) -> pa.Table:
    CALLS.append("total")
    amount = pc.sum(big["amount"]).as_py()
    return pa.table({"k": ["all"], "amount": [amount // divisor]})
