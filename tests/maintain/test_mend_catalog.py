"""Iceberg tables that somebody took out of the lake's catalog, or renamed there, come back."""

from __future__ import annotations

import pytest

import lakeward as lw
from lakeward.maintain.doctor import Severity, mend
from tests.behaviour.iceberg.strangers import Stranger, agree
from tests.behaviour.lakes import append, ids
from tests.support.inside import context_of

NAME = "sales.orders"


@pytest.fixture
def table(lake: lw.Lake) -> lw.Table:
    made = lake.create(NAME, {"id": "int64", "part": "int64"}, format="iceberg")
    append(lake, NAME, {"id": [1, 2], "part": [1, 1]})
    return made


def test_a_table_taken_out_of_the_catalog_is_entered_again(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    stranger.catalog.drop_table(NAME)
    report = lake.doctor()
    assert [f.code for f in report.findings if f.severity is Severity.ERROR] == ["catalog-missing"]

    mended = mend(context_of(lake), report)

    assert mended.entered == (NAME,)
    assert lake.doctor().healthy
    append(lake, NAME, {"id": [6], "part": [6]})
    assert agree(stranger, table) == 3


def test_a_renamed_table_gets_its_name_back_with_what_was_committed_meanwhile(
    lake: lw.Lake, table: lw.Table, stranger: Stranger
) -> None:
    stranger.catalog.rename_table(NAME, "sales.moved")
    stranger.append("sales.moved", [{"id": 6, "part": 6}])
    report = lake.doctor()
    assert "catalog-missing" in {f.code for f in report.findings}

    mend(context_of(lake), report)

    assert stranger.catalog.list_tables("sales") == [("sales", "orders")]
    assert 6 in ids(lake, NAME)
    assert agree(stranger, table) == 3
    assert lake.doctor().healthy
