"""What is nearly a table, or nearly a list of its columns."""

from __future__ import annotations

import pandas as pd
import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from tests.behaviour.lakes import append


def test_a_series_is_no_table(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64"})
    with pytest.raises(InvalidInput):
        append(shared_lake, name, pd.Series([1, 2], name="id"))
    assert table.version == 0


def test_a_column_is_asked_for_once(shared_lake: lw.Lake, name: str) -> None:
    table = shared_lake.create(name, {"id": "int64", "note": "string"})
    append(shared_lake, name, {"id": [1], "note": ["x"]})
    with pytest.raises(InvalidInput, match="more than once"):
        table.to_arrow(columns=["id", "note", "id"])
    with pytest.raises(InvalidInput, match="more than once"), shared_lake.transaction() as tx:
        tx.read(name, columns=["id", "id"])
