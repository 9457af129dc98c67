"""Sinks under policies: columns that rows bring, and policies that are set while a sink is open."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, EpochFailed, InvalidInput, PolicyViolation
from tests.behaviour.lakes import ids, unchanged

_FIRST = pa.table({"id": [1, 2]})
_WIDER = pa.table({"id": [3], "note": ["x"]})


@pytest.mark.parametrize("by_policy", [False, True])
def test_a_sink_adds_the_columns_that_rows_bring(
    shared_lake: lw.Lake, name: str, by_policy: bool
) -> None:
    shared_lake.create(name, {"id": "int64"})
    if by_policy:
        shared_lake.set_policy(name, {"schema_mode": "merge"})
    mode = None if by_policy else "merge"
    with shared_lake.sink(name, writer_id="w", schema_mode=mode, flush_rows=1) as sink:
        sink.write(_FIRST)
        sink.write(_WIDER)
        sink.write(_FIRST)
        sink.commit_epoch(1)
        sink.write(pa.table({"id": [4], "note": ["y"], "more": [1.5]}))
        sink.commit_epoch(2)

    rows = shared_lake.table(name).to_arrow().sort_by("id").to_pylist()
    assert [(r["id"], r["note"], r["more"]) for r in rows] == [
        *[(1, None, None)] * 2,
        *[(2, None, None)] * 2,
        (3, "x", None),
        (4, "y", 1.5),
    ]


def test_an_epoch_that_is_written_again_changes_nothing(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    for _ in range(2):
        with shared_lake.sink(name, writer_id="w", schema_mode="merge") as sink:
            sink.write(_WIDER)
            sink.commit_epoch(1)
    assert shared_lake.table(name).version == 2
    assert ids(shared_lake, name) == [3]


def test_changes_bring_columns_at_the_beginning_of_an_epoch(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    with shared_lake.sink(
        name, writer_id="w", mode="upsert", key="id", schema_mode="merge"
    ) as sink:
        sink.write(pa.table({"id": [1]}))
        with pytest.raises(lw.errors.SchemaMismatch, match="Commit the epoch"):
            sink.write(_WIDER)
        sink.commit_epoch(1)
        sink.write(pa.table({"id": [1, 2], "note": ["x", "y"]}))
        sink.commit_epoch(2)
    rows = shared_lake.table(name).to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "note": "x"}, {"id": 2, "note": "y"}]


def test_a_policy_refuses_columns_of_a_sink(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, {"id": "int64"})
    shared_lake.set_policy(name, {"schema_mode": "strict"})
    with unchanged(shared_lake), pytest.raises(PolicyViolation, match=name):
        shared_lake.sink(name, writer_id="w", schema_mode="merge")
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="merge"):
        shared_lake.sink(name, writer_id="w", schema_mode="overwrite")
    shared_lake.set_policy(name, {"schema_mode": "merge", "allowed_evolutions": []})
    with shared_lake.sink(name, writer_id="w") as sink:
        with pytest.raises(PolicyViolation, match="add column note"):
            sink.write(_WIDER)
        sink.write(_FIRST)
        sink.commit_epoch(1)
    assert ids(shared_lake, name) == [1, 2]


def test_rows_that_a_sink_took_before_a_policy_are_checked_by_it(
    shared_lake: lw.Lake, name: str
) -> None:
    shared_lake.create(name, {"id": "int64"})
    with shared_lake.sink(name, writer_id="w") as sink:
        sink.write(pa.table({"id": [-1]}))
        shared_lake.set_policy(name, {"constraints": {"positive": "id > 0"}})
        with pytest.raises((EpochFailed, ConstraintViolation)):
            sink.commit_epoch(1)
        sink.discard()
        assert ids(shared_lake, name) == []
        with pytest.raises(ConstraintViolation):
            sink.write(pa.table({"id": [-1]}))
        sink.write(_FIRST)
        sink.commit_epoch(1)
    assert ids(shared_lake, name) == [1, 2]
