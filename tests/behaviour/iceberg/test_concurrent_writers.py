"""pyiceberg and the lake write one Iceberg table at once, from processes: nobody's commit is lost.

The same row of the catalog arbitrates both: pyiceberg moves it by compare-and-set and, when it
lost, is run again by its user, here the test; the lake holds the row's lock and never loses.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException

import lakeward as lw
from lakeward.errors import Conflict
from tests.behaviour.iceberg.strangers import Stranger, agree
from tests.behaviour.lakes import append, ids
from tests.support.iceberg import catalog_url
from tests.support.inside import context_of
from tests.support.processes import started
from tests.support.target import LakeTarget

NAME = "sales.orders"
_THEIRS, _OURS = 2, 2
_EACH = 4


def test_commits_of_pyiceberg_and_of_the_lake_all_survive(
    lake_target: LakeTarget, lake: lw.Lake, stranger: Stranger
) -> None:
    table = lake.create(NAME, {"id": "int64", "who": "string"}, format="iceberg")
    append(lake, NAME, [{"id": -1, "who": "nobody"}])

    properties = {"uri": catalog_url(lake), **context_of(lake).storage.iceberg_properties()}
    with started(_THEIRS + _OURS, _write, lake_target, properties) as workers:
        said = [w.finish() for w in workers]

    committed = [n for messages in said for n in messages[1:]]
    assert len(committed) == (_THEIRS + _OURS) * _EACH
    gone = [n for n in committed if n % 10 == 0 and n < _THEIRS * 1000]
    assert ids(lake, NAME) == sorted({-1, *committed} - set(gone))
    assert agree(stranger, table) == len(ids(lake, NAME))
    history = table.history()
    assert [v.version for v in history] == list(range(len(history) - 1, -1, -1))
    assert sum(v.adopted for v in history) == _THEIRS * _EACH + len(gone)
    assert len({v.transaction_id for v in history}) == len(history)


def _write(pipe: Connection, number: int, target: LakeTarget, properties: dict[str, str]) -> None:
    if number < _THEIRS:
        _write_theirs(pipe, number, properties)
        return
    with target.open() as lake:
        pipe.send("ready")
        pipe.recv()
        for n in range(number * 1000, number * 1000 + _EACH):
            append(lake, NAME, [{"id": n, "who": "ours"}])
            pipe.send(n)


def _write_theirs(pipe: Connection, number: int, properties: dict[str, str]) -> None:
    catalog = SqlCatalog("lakeward", **properties)
    pipe.send("ready")
    pipe.recv()
    for n in range(number * 1000, number * 1000 + _EACH):
        rows = pa.table({"id": [n], "who": ["theirs"]})
        _until_committed(catalog, lambda table, rows=rows: table.append(rows))
        if n % 10 == 0:
            _until_committed(catalog, lambda table, n=n: table.delete(f"id = {n}"))
        pipe.send(n)
    catalog.engine.dispose()


def _until_committed(catalog: SqlCatalog, change: Any) -> None:
    while True:
        try:
            change(catalog.load_table(NAME))
        except CommitFailedException:
            continue
        return


def test_a_change_of_ours_is_checked_against_what_others_committed_meanwhile(
    lake: lw.Lake, stranger: Stranger
) -> None:
    lake.create(NAME, {"id": "int64", "who": "string"}, format="iceberg")
    append(lake, NAME, [{"id": n, "who": "ours"} for n in (1, 2, 3)])
    ours = lake.transaction()
    ours.delete(NAME, where="id = 2")
    stranger.append(NAME, [{"id": 4, "who": "theirs"}])
    stranger.table(NAME).delete("id = 1")

    with pytest.raises(Conflict, match="OVERWRITE"):
        ours.commit()

    assert ids(lake, NAME) == [2, 3, 4]
    lake.run(lambda tx: tx.delete(NAME, where="id = 2"))
    assert ids(lake, NAME) == [3, 4]
    assert sorted(stranger.rows(NAME)["id"].to_pylist()) == [3, 4]
