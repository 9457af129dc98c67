"""A table does not get the name of a view, whichever way it comes into the lake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import AlreadyExists
from lakeward.model.names import TableName

_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "x", "required": False, "type": "long"}],
}
_VERSION = {
    "version-id": 1,
    "timestamp-ms": 1,
    "schema-id": 0,
    "summary": {},
    "default-namespace": ["s"],
    "representations": [{"type": "sql", "sql": "select 1 x", "dialect": "spark"}],
}
_VIEW = {"name": "v", "schema": _SCHEMA, "view-version": _VERSION, "properties": {}}


@pytest.mark.local
def test_tables_do_not_get_the_name_of_a_view(lake: lw.Lake, tmp_path: Path) -> None:
    lake.create("s.v", "x int64")
    lake.drop("s.v")
    lake.create("s.t", "x int64")
    lake.iceberg_catalog().create_view("s", _VIEW)
    write_deltalake(tmp_path / "theirs", pa.table({"x": [1]}))

    for bring in (
        lambda: lake.create("s.v", "x int64"),
        lambda: lake.create("s.v", "x int64", if_not_exists=True),
        lambda: lake.undrop("s.v"),
        lambda: lake.adopt("s.v", tmp_path / "theirs"),
        lambda: lake.clone("s.t", "s.v"),
    ):
        with pytest.raises(AlreadyExists, match=r"view s\.v"):
            bring()

    assert [t.name for t in lake.tables()] == ["s.t"]
    assert lake.iceberg_catalog().has_view(TableName.parse("s.v"))
