"""Policies of patterns: what counts for a table, where it comes from, and since when."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

import lakeward as lw
from lakeward.errors import Conflict, ConstraintViolation, InvalidInput, InvalidName
from lakeward.log import audit, heads
from tests.behaviour.lakes import append, ids, unchanged
from tests.support.inside import context_of
from tests.support.s3 import on_disk
from tests.support.target import LakeTarget


@pytest.fixture
def space(new_name: Callable[[], str]) -> str:
    """A namespace that no other test has."""
    return new_name().replace(".", "_")


def test_a_more_specific_pattern_counts_and_the_exact_name_most(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.orders"
    shared_lake.set_policy(f"{space}.*", {"compression": "zstd", "target_file_size": "64 MB"})
    shared_lake.set_policy(f"{space}.ord*", {"compression": "gzip"})
    assert shared_lake.policy(name).policy.compression == "gzip"

    table = shared_lake.create(name, {"id": "int64"}, policy={"compression": "none"})
    found = shared_lake.policy(name)

    assert found.policy == lw.Policy(compression=found.policy.compression, target_file_size=2**26)
    assert found.sources == {"compression": "table", "target_file_size": f"{space}.*"}
    shared_lake.set_policy(name, lw.Policy(compression="brotli"))
    found = shared_lake.policy(name)
    assert (found.policy.compression, found.sources["compression"]) == ("brotli", name)
    append(shared_lake, name, {"id": [1]})
    assert all(".brotli." in file.path for file in table.files())


def test_a_policy_counts_from_the_version_after_it_was_set(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.t"
    table = shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [1]})
    first = shared_lake.set_policy(f"{space}.*", {"retention": "30 days"}, message="by law")
    append(shared_lake, name, {"id": [2]})
    second = shared_lake.set_policy(f"{space}.*", {"retention": "60 days"})
    append(shared_lake, name, {"id": [3]})
    shared_lake.set_policy(f"{space}.*", None, message="no longer")
    append(shared_lake, name, {"id": [4]})
    later = shared_lake.create(f"{space}.later", {"id": "int64"})

    kept = [table.at(version=v).policy.policy.retention for v in range(5)]
    assert kept == [None, None, timedelta(days=30), timedelta(days=60), None]
    assert later.at(version=0).policy.policy.retention is None
    told = shared_lake.policies(history=True, pattern=f"{space}.*")
    assert [one.message for one in told] == ["by law", None, "no longer"]
    assert [one.until for one in told[:2]] == [told[1].at, told[2].at]
    assert told[0] != first  # It was valid when it was set.
    assert (told[0].policy_id, told[1].policy_id) == (first.policy_id, second.policy_id)
    assert told[2].policy is None
    assert {one.actor for one in told} == {context_of(shared_lake).actor}
    assert f"{space}.*" not in [one.pattern for one in shared_lake.policies()]


def test_setting_a_policy_is_in_the_audit_trail_of_every_table(
    shared_lake: lw.Lake, space: str
) -> None:
    for name in ("a", "b"):
        shared_lake.create(f"{space}.{name}", {"id": "int64"})
    other = shared_lake.create(f"{space}x.a", {"id": "int64"})

    done = shared_lake.set_policy(f"{space}.*", {"append_only": True})

    context = context_of(shared_lake)
    with context.database.read() as session:
        for name in (f"{space}.a", f"{space}.b"):
            head = heads.get(session, shared_lake.table(name).at().log_head.name)
            last = list(audit.entries(session, head.table_id))[-1]
            assert (last.action, last.transaction_id) == ("SET POLICY", done.transaction_id)
            assert audit.broken_at(session, head) is None
        head = other.at().log_head
        assert [e.action for e in audit.entries(session, head.table_id)] == ["CREATE TABLE"]
    record = shared_lake.transaction_record(done.transaction_id)
    assert record.state == "ratified"


def test_constraints_of_a_pattern_are_checked_like_the_tables_own(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.t"
    shared_lake.create(name, {"id": "int64", "n": "int64"}, constraints={"own": "n > 0"})
    shared_lake.set_policy(
        f"{space}.*", {"constraints": {"positive": "id > 0", "one": {"unique": ["id"]}}}
    )
    append(shared_lake, name, {"id": [1], "n": [1]})

    for rows, constraint in (
        ({"id": [-1], "n": [1]}, "positive"),
        ({"id": [1], "n": [1]}, "one"),
        ({"id": [2], "n": [-1]}, "own"),
    ):
        with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
            append(shared_lake, name, rows)
        assert caught.value.constraint == constraint
    with (
        unchanged(shared_lake),
        pytest.raises(ConstraintViolation, match=r"by policy .*\.\*"),
        shared_lake.transaction() as tx,
    ):
        tx.update(name, set={"id": "-id"})
    assert ids(shared_lake, name) == [1]


def test_rows_that_are_there_and_columns_that_are_not_refuse_a_policy(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.t"
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [-1]})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation):
        shared_lake.set_policy(f"{space}.*", {"constraints": {"positive": "id > 0"}})
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="amount"):
        shared_lake.set_policy(f"{space}.*", {"constraints": {"positive": "amount > 0"}})
    assert shared_lake.policy(name).policy == lw.Policy()
    shared_lake.set_policy(f"{space}.x*", {"constraints": {"positive": "amount > 0"}})
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=rf"{space}\.x\*"):
        shared_lake.create(f"{space}.x1", {"id": "int64"})
    table = shared_lake.create(f"{space}.x2", {"amount": "int64", "b": "int64"})
    with pytest.raises(InvalidInput, match="amount"):
        table.alter().drop_column("amount").commit()
    with pytest.raises(InvalidInput, match="policy"):
        table.alter().drop_constraint("positive").commit()


def test_rows_that_violate_a_pattern_go_to_quarantine_although_the_pattern_matches_it_too(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.t"
    rule = lw.Check("id > 0", on_violation="quarantine")
    shared_lake.set_policy(f"{space}.*", lw.Policy(constraints={"positive": rule}))
    shared_lake.create(name, {"id": "int64"})

    append(shared_lake, name, {"id": [1, -1]})

    assert ids(shared_lake, name) == [1]
    assert ids(shared_lake, f"{name}__quarantine") == [-1]


def test_a_lake_that_is_opened_again_keeps_its_policies(lake_target: LakeTarget) -> None:
    with lake_target.open() as lake:
        lake.set_policy("gold.*", {"constraints": {"one": {"unique": "id"}}}, message="why")
        before = lake.policies()
    with lake_target.open() as lake:
        assert lake.policies() == before
        lake.create("gold.t", {"id": "int64"})
        append(lake, "gold.t", {"id": [1]})
        with pytest.raises(ConstraintViolation):
            append(lake, "gold.t", {"id": [1]})


def test_another_lake_object_keeps_to_a_policy_at_once(lake_target: LakeTarget) -> None:
    with lake_target.open() as one, lake_target.open() as other:
        one.create("t", {"id": "int64"})
        append(other, "t", {"id": [-1]})
        with other.transaction() as tx:
            tx.delete("t", where="id < 0")
        one.set_policy("*", {"constraints": {"positive": "id > 0"}})
        with pytest.raises(ConstraintViolation):
            append(other, "t", {"id": [-2]})
        assert ids(other, "t") == []


@pytest.mark.before_the_store
@pytest.mark.parametrize(
    ("policy", "match"),
    [
        ({"nonsense": 1}, "no field 'nonsense'"),
        ({"schema_mode": "loose"}, "strict, merge, overwrite"),
        ({"allowed_evolutions": ["explode"]}, "explode"),
        ({"target_file_size": "big"}, "size"),
        ({"retention": "soon"}, "duration"),
        ({"compression": "rar"}, "rar"),
        ({"merge_on_read": "yes"}, "True or False"),
        ({"retry_jitter": 2}, "share"),
        ({"constraints": {"a b": "id > 0"}}, "a b"),
        ({"constraints": {"a": {"foreign": "x"}}}, "check"),
        ({"constraints": {"a": lw.ForeignKey("id", references="t")}}, "foreign key"),
        ("nonsense", "dict"),
    ],
)
def test_what_makes_no_sense_is_refused(shared_lake: lw.Lake, policy: object, match: str) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=match):
        shared_lake.set_policy("nowhere.*", policy)  # type: ignore[arg-type]


@pytest.mark.before_the_store
@pytest.mark.parametrize("pattern", ["", "a.b.c", "a b", "gold.", 3, "a/*"])
def test_what_is_no_pattern_is_refused(shared_lake: lw.Lake, pattern: object) -> None:
    with unchanged(shared_lake), pytest.raises(InvalidName):
        shared_lake.set_policy(pattern, {})  # type: ignore[arg-type]


def test_transactions_are_tried_as_often_as_a_pattern_says(
    shared_lake: lw.Lake, space: str
) -> None:
    name = f"{space}.orders"
    shared_lake.create(name, {"id": "int64"})
    append(shared_lake, name, {"id": [0]})
    shared_lake.set_policy(f"{space}.*", {"retry_attempts": 2, "retry_first_delay_seconds": 0.001})
    calls: list[int] = []

    def work(tx: lw.Transaction) -> None:
        tx.update(name, set={"id": "id + 1"})
        calls.append(1)
        shared_lake.table(name).overwrite({"id": [0]})

    with pytest.raises(Conflict):
        shared_lake.run(work)
    assert len(calls) == 2


@pytest.mark.formats("delta")
def test_checkpoints_are_written_as_a_pattern_says(lake: lw.Lake) -> None:
    table = lake.create("gold.t", {"id": "int64"})
    lake.set_policy("gold.*", {"checkpoint_interval": 2})
    for number in range(4):
        append(lake, "gold.t", {"id": [number]})
    lake.publish()
    lake._background.wait()
    found = (on_disk(table.location) / "_delta_log").glob("*.checkpoint.parquet")
    assert sorted(int(p.name[:20]) for p in found) == [2, 4]
