"""The quarantine deletes only files that its own transaction wrote, on commit and on rollback."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import lakeward as lw
from lakeward.errors import Refused
from lakeward.lake.rest_catalog import parse_commit
from lakeward.log import catalog
from lakeward.model.names import TableName
from tests.behaviour.files_by_hand.by_hand import put
from tests.behaviour.lakes import append, data_files, ids
from tests.support.iceberg import stranger_catalog
from tests.support.invariants import check_lake
from tests.support.rest import requested

_KEY = {"key": lw.Unique("id", on_violation="quarantine")}


def make(lake: lw.Lake, name: str = "t", constraints: object = _KEY) -> lw.Table:
    return lake.create(name, "id int64", constraints=constraints)  # type: ignore[arg-type]


def rows(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


@contextmanager
def refusing(lake: lw.Lake) -> Generator[None]:
    def refuse(_: object) -> None:
        raise ValueError

    hook = lake.hooks.before_commit(refuse)
    with pytest.raises(Refused):
        yield
    lake.hooks.remove(hook)


def check(lake: lw.Lake, expected: list[int], aside: list[int]) -> None:
    assert ids(lake, "t") == expected
    assert ids(lake, "t__quarantine") == aside
    check_lake(lake, ["t", "t__quarantine"])


def test_an_undo_keeps_the_files_of_older_versions(lake: lw.Lake) -> None:
    table = make(lake)
    first = append(lake, "t", rows(1, 2))
    with lake.transaction() as tx:
        tx.delete("t", where="id > 0")
    append(lake, "t", rows(1))
    with refusing(lake):
        lake.undo(tx.transaction_id)
    assert sorted(table.at(version=first).to_arrow()["id"].to_pylist()) == [1, 2]

    lake.undo(tx.transaction_id)

    check(lake, [1, 2], [1])
    assert sorted(table.at(version=first).to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_restore_keeps_the_files_of_older_versions(lake: lw.Lake) -> None:
    table = make(lake, constraints=None)
    first = append(lake, "t", rows(1, 1, 2))
    with lake.transaction() as tx:
        tx.delete("t", where="id > 0")
    lake.set_policy("t", {"constraints": _KEY})
    with refusing(lake):
        table.restore(version=first)

    table.restore(version=first)

    check(lake, [1, 2], [1])
    assert sorted(table.at(version=first).to_arrow()["id"].to_pylist()) == [1, 1, 2]


def test_files_that_a_user_adds_are_kept(lake: lw.Lake) -> None:
    table = make(lake)
    path = put(table, "in/p.parquet", rows(1, 1, 2))
    with refusing(lake), lake.transaction() as tx:
        tx.add_files("t", [path])
    assert path in data_files(lake, "t")

    with lake.transaction() as tx:
        tx.add_files("t", [path])

    check(lake, [1, 2], [1])
    assert path in data_files(lake, "t")


def test_a_branch_keeps_its_files_if_it_is_not_published(lake: lw.Lake, table_format: str) -> None:
    make(lake)
    append(lake, "t", rows(1))
    branch = lake.branch("load", tables=["t"])
    if table_format == "delta":
        write_deltalake(branch.table("t").location, rows(1, 2), mode="append")
    else:
        found = stranger_catalog(lake, branch.table("t").catalog)  # type: ignore[arg-type]
        found.load_table(catalog.identifier(TableName.parse("t"))).append(rows(1, 2))
    with refusing(lake):
        branch.publish()
    seen = lake.branch("load").table("t").to_arrow()
    assert sorted(seen["id"].to_pylist()) == [1, 1, 2]

    branch.publish()

    check(lake, [1, 2], [1])
    assert data_files(lake, "t") == {f.path for f in lake.table("t").files()}


@pytest.mark.formats("iceberg")
def test_a_rest_client_can_repeat_a_commit_that_failed(lake: lw.Lake) -> None:
    make(lake)
    append(lake, "t", rows(1))
    theirs = stranger_catalog(lake).load_table(catalog.identifier(TableName.parse("t")))
    asked = parse_commit(requested(theirs, lambda tx: tx.append(rows(1, 2))))
    with refusing(lake):
        lake.iceberg_catalog().commit([asked])

    lake.iceberg_catalog().commit([asked])

    check(lake, [1, 2], [1])


def test_what_the_transaction_wrote_is_deleted(lake: lw.Lake) -> None:
    make(lake)
    append(lake, "t", rows(1))
    before = data_files(lake, "t")
    with refusing(lake), lake.transaction() as tx:
        tx.append("t", rows(1, 2))
    assert data_files(lake, "t") == before

    append(lake, "t", rows(1, 2))

    check(lake, [1, 2], [1])
    assert data_files(lake, "t") == {f.path for f in lake.table("t").files()}
