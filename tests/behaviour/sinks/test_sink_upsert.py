"""Changes merged by key: the last one of a key wins, and every other row stays as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation, InvalidInput, SchemaMismatch
from lakeward.stream.sink import Sink
from tests.behaviour.lakes import append, unchanged

SCHEMA = "id int64, part string, v int64 not null"


def opened(lake: lw.Lake, name: str, **options: Any) -> Sink:
    given = {"schema": SCHEMA, "key": "id", **options}
    return lake.sink(name, writer_id="w", mode="upsert", **given)


def change(
    kind: str, number: int, value: int = 0, sequence: int | None = None
) -> dict[str, object]:
    found = {"id": number, "part": f"p{number % 3}", "v": value, "_change_type": kind}
    return found if sequence is None else {**found, "_sequence": sequence}


def rows(lake: lw.Lake, name: str) -> dict[int, int]:
    found = lake.table(name).to_arrow()
    pairs = list(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(dict(pairs)) == len(pairs), "a key is there twice"
    return dict(sorted(pairs))


def test_rows_are_inserted_updated_and_deleted(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", n, n) for n in range(5)])
        sink.commit_epoch(1)
        sink.write([change("update", 1, 10), change("delete", 2), change("insert", 9, 90)])
        result = sink.commit_epoch(2)
    assert rows(shared_lake, name) == {0: 0, 1: 10, 3: 3, 4: 4, 9: 90}
    assert result.versions == {name: 2}
    assert shared_lake.table(name).history()[0].operation == "MERGE"


def test_the_last_change_of_a_key_wins_within_an_epoch(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name, flush_rows=1) as sink:
        sink.write([change("insert", 1, 1), change("delete", 1), change("insert", 2, 1)])
        sink.write([change("delete", 2), change("insert", 3, 1)])
        sink.write([change("insert", 1, 5), change("update", 3, 6)])
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 5, 3: 6}


def test_a_sequence_counts_for_more_than_the_order_of_arrival(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name, flush_rows=1) as sink:
        sink.write([change("update", 1, 30, sequence=3), change("delete", 2, sequence=9)])
        sink.write([change("update", 1, 10, sequence=1), change("insert", 2, 2, sequence=8)])
        sink.write([change("update", 3, 1, sequence=5), change("update", 3, 2, sequence=5)])
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 30, 3: 2}


def test_rows_without_a_kind_are_written_in_place_of_their_key(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name) as sink:
        for epoch in range(2):
            sink.write(pa.table({"id": [1, 2], "part": ["a", "b"], "v": [epoch, epoch]}))
            sink.commit_epoch(epoch)
        sink.write([{"id": 1, "part": "a", "v": 7}, {"id": 2, "_change_type": "delete"}])
        sink.commit_epoch(2)
    assert rows(shared_lake, name) == {1: 7}


def test_of_a_deleted_row_the_key_is_enough(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", 1, 1), change("insert", 2, 2)])
        sink.commit_epoch(1)
        sink.write([{"id": 1, "_change_type": "delete"}])
        sink.write(pa.table({"id": pa.array([7], pa.int32()), "_change_type": ["delete"]}))
        sink.commit_epoch(2)
    assert rows(shared_lake, name) == {2: 2}


def test_the_words_of_a_change_feed_are_understood(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write(
            [
                change("insert", 1, 1),
                change("update_preimage", 2, 66),
                change("update_postimage", 2, 2),
            ]
        )
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 1, 2: 2}


def test_a_replayed_epoch_merges_nothing(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", 1, 1)])
        sink.commit_epoch(1)
        sink.write([change("update", 1, 2)])
        sink.commit_epoch(2)
    with opened(shared_lake, name) as sink, unchanged(shared_lake):
        sink.write([change("insert", 1, 1)])
        assert sink.commit_epoch(1).replayed
    assert rows(shared_lake, name) == {1: 2}


def test_what_others_committed_meanwhile_is_merged_with_too(
    shared_lake: lw.Lake, name: str
) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", 1, 1), change("insert", 2, 1)])
        append(shared_lake, name, [{"id": 1, "part": "x", "v": 7}, {"id": 3, "part": "x", "v": 7}])
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 1, 2: 1, 3: 7}


def test_only_files_with_changed_rows_are_rewritten(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, SCHEMA)
    for start in (0, 10):
        append(
            shared_lake, name, [{"id": n, "part": "x", "v": 0} for n in range(start, start + 10, 2)]
        )
    before = {f.path for f in shared_lake.table(name).files()}
    with opened(shared_lake, name) as sink:
        sink.write([change("update", 4, 1), change("insert", 13, 1)])
        sink.commit_epoch(1)
    after = {f.path for f in shared_lake.table(name).files()}
    assert len(before & after) == 1
    assert len(rows(shared_lake, name)) == 11


@pytest.mark.parametrize("partition_by", [[], ["part"]], ids=["whole", "partitioned"])
def test_any_changes_end_as_a_dictionary_would(
    shared_lake: lw.Lake, name: str, partition_by: list[str]
) -> None:
    choose = random.Random(5)
    model: dict[int, int] = {}
    with opened(
        shared_lake, name, partition_by=partition_by, flush_rows=7, flush_bytes=400
    ) as sink:
        for epoch in range(6):
            for _ in range(choose.randrange(6)):
                batch = []
                for _ in range(choose.randrange(1, 9)):
                    number, value = choose.randrange(20), choose.randrange(1000)
                    kind = choose.choice(("insert", "update", "delete"))
                    batch.append(change(kind, number, value))
                    if kind == "delete":
                        model.pop(number, None)
                    else:
                        model[number] = value
                sink.write(batch)
            sink.commit_epoch(epoch)
            assert rows(shared_lake, name) == dict(sorted(model.items()))


def test_a_key_may_have_several_columns(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name, key=["part", "id"]) as sink:
        sink.write([{"id": 1, "part": p, "v": 1} for p in "ab"])
        sink.commit_epoch(1)
        sink.write([{"id": 1, "part": "b", "v": 2}])
        sink.commit_epoch(2)
    found = shared_lake.table(name).to_arrow().to_pylist()
    assert sorted((r["part"], r["v"]) for r in found) == [("a", 1), ("b", 2)]


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ([change("insert", 1), {**change("insert", 1), "id": None}], ConstraintViolation),
        ([{"id": None, "_change_type": "delete"}], ConstraintViolation),
        ([{"part": "a", "_change_type": "delete"}], SchemaMismatch),
        ([change("upsert", 1)], SchemaMismatch),
        (pa.table({"id": [1], "_change_type": [1]}), SchemaMismatch),
        ([{"id": 1, "part": "a", "v": None}], ConstraintViolation),
        (pa.table({"id": [1], "v": [1], "part": ["a"], "_sequence": [1.5]}), SchemaMismatch),
        (pa.table({"id": [1], "other": [1], "_change_type": ["delete"]}), SchemaMismatch),
    ],
)
def test_changes_that_cannot_be_merged_are_refused_and_the_sink_goes_on(
    shared_lake: lw.Lake, name: str, data: Any, kind: type[Exception]
) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", 1, 1)])
        with unchanged(shared_lake), pytest.raises(kind):
            sink.write(data)
        sink.write([change("insert", 2, 2)])
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 1, 2: 2}


def test_changes_with_and_without_a_sequence_do_not_mix(shared_lake: lw.Lake, name: str) -> None:
    with opened(shared_lake, name) as sink:
        sink.write([change("insert", 1, 1, sequence=4)])
        with pytest.raises(SchemaMismatch, match="_sequence"):
            sink.write([change("insert", 1, 2)])
        sink.commit_epoch(1)
    assert rows(shared_lake, name) == {1: 1}


@pytest.mark.before_the_store
@pytest.mark.parametrize("key", [None, [], "other", ["id", "id"], ["d"], [1]])
def test_a_key_that_is_none_is_refused(shared_lake: lw.Lake, name: str, key: Any) -> None:
    shared_lake.create(name, {"id": "int64", "d": "double"})
    with unchanged(shared_lake), pytest.raises(InvalidInput):
        shared_lake.sink(name, writer_id="w", mode="upsert", key=key)


def test_what_others_commit_at_the_last_moment_is_merged_with_too(
    make_lake: Callable[[], lw.Lake],
) -> None:
    lake, other = make_lake(), make_lake()
    late = iter([[{"id": n, "part": "x", "v": 7} for n in (1, 3)]])

    def hurry(_: lw.StagedCommit) -> None:
        for found in late:
            append(other, "t", found)

    with opened(lake, "t") as sink:
        lake.hooks.before_commit(hurry)
        sink.write([change("insert", 1, 1), change("insert", 2, 1)])
        assert sink.commit_epoch(1).versions == {"t": 2}
    assert rows(lake, "t") == {1: 1, 2: 1, 3: 7}
