"""Named branches of Iceberg tables: pyiceberg works on them by a catalog of the branch's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, CorruptTable, UnsupportedFeature
from lakeward.log import catalog
from lakeward.log.statement import Statement
from lakeward.model.names import TableName
from tests.behaviour.lakes import append, delete, ids
from tests.support.iceberg import stranger_catalog
from tests.support.inside import context_of
from tests.support.invariants import check_lake
from tests.support.tables import numbered, table_of

pytestmark = pytest.mark.formats("iceberg")

_TABLE = table_of(id="int64", v="string").options(format="iceberg").rows(numbered(0, 1, 2))


def _open(lake: lw.Lake, table: Any) -> Any:
    """A branch's table as pyiceberg loads it."""
    found = stranger_catalog(lake, table.catalog)
    return found.load_table(catalog.identifier(TableName.parse(table.name)))


def test_pyiceberg_works_on_a_branch_and_both_formats_are_published_as_one(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    _TABLE.make(lake, "delta", format="delta")
    branch = lake.branch("audit", tables=["s.ice", "delta"])
    ice = _open(lake, branch.table("s.ice"))
    ice.append(numbered(7))
    ice.delete("id = 0")
    write_deltalake(branch.table("delta").location, numbered(8), mode="append")
    assert ids(lake, "s.ice") == ids(lake, "delta") == [0, 1, 2]
    seen = branch.table("s.ice").to_arrow(columns=["id"], where="id > 1")
    assert sorted(seen.column("id").to_pylist()) == [2, 7]

    result = branch.publish()

    assert result.versions == {"s.ice": 2, "delta": 2}
    assert ids(lake, "s.ice") == [1, 2, 7]
    assert ids(lake, "delta") == [0, 1, 2, 8]
    assert lake.table("s.ice").history()[0].operation == "PUBLISH BRANCH"
    check_lake(lake, ["s.ice", "delta"])
    assert lake.doctor().findings == ()
    with context_of(lake).database.read() as session:
        assert catalog.branch_pointer(session, "audit", TableName.parse("s.ice")) is None


def test_a_branch_is_found_again_and_dropped_without_a_trace(
    lake: lw.Lake, make_lake: Callable[..., lw.Lake]
) -> None:
    _TABLE.make(lake, "s.ice")
    before = sorted(Path(lake.table("s.ice").location).rglob("*"))
    branch = lake.branch("audit", tables=["s.ice"])
    _open(lake, branch.table("s.ice")).append(numbered(7))
    lake.close()
    again = make_lake()

    (found,) = again.branches()
    assert (found.table("s.ice").base_version, found.table("s.ice").version) == (1, 1)
    (told,) = found.diff()
    assert (told.rows_added, told.rows_removed, told.conflict) == (1, 0, None)
    found.drop()

    assert sorted(Path(again.table("s.ice").location).rglob("*")) == before
    assert again.branches() == []
    assert again.doctor().findings == ()


def test_others_who_changed_the_same_rows_keep_a_branch_out(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    branch = lake.branch("audit", tables=["s.ice"])
    _open(lake, branch.table("s.ice")).delete("id = 1")
    delete(lake, "s.ice", "id = 0")

    assert branch.diff()[0].conflict is not None
    with pytest.raises(Conflict):
        branch.publish()

    assert ids(lake, "s.ice") == [1, 2]
    assert [b.name for b in lake.branches()] == ["audit"]


def test_rows_that_a_check_refuses_are_not_published(lake: lw.Lake) -> None:
    lake.create("ice", {"id": "int64"}, constraints={"small": "id < 10"})
    append(lake, "ice", {"id": [1]})
    branch = lake.branch("audit", tables=["ice"])
    _open(lake, branch.table("ice")).append(pa.table({"id": [5000]}))

    with pytest.raises(ConstraintViolation, match="small"):
        branch.publish()

    assert ids(lake, "ice") == [1]


def test_columns_do_not_change_on_a_branch(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    branch = lake.branch("audit", tables=["s.ice"])
    from pyiceberg.types import LongType

    with _open(lake, branch.table("s.ice")).update_schema() as update:
        update.add_column("w", LongType())

    with pytest.raises(UnsupportedFeature, match="columns"):
        branch.publish()


def test_a_branch_that_was_never_finished_says_so(lake: lw.Lake) -> None:
    _TABLE.make(lake, "s.ice")
    lake.branch("audit", tables=["s.ice"])
    with context_of(lake).database.write() as session:
        session.run(Statement("DELETE FROM iceberg_tables WHERE catalog_name = 'branch_audit'"))
    lake.branch("audit")
    with context_of(lake).database.write() as session:
        session.run(Statement("DELETE FROM iceberg_tables WHERE catalog_name = 'branch_audit'"))
    append(lake, "s.ice", numbered(3))

    with pytest.raises(CorruptTable, match="never finished"):
        lake.branch("audit")
