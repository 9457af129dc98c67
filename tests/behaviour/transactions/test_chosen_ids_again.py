"""A chosen transaction id that failed can be tried again, and commits once."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import AlreadyExists, Conflict, ConstraintViolation, InvalidExpression

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


def test_an_id_whose_rows_were_refused_commits_once_they_are_mended(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        table = lake.create("t", ROWS.schema, constraints={"positive": "id > 0"})
        with (
            pytest.raises(ConstraintViolation),
            lake.transaction(transaction_id="night-1") as tx,
        ):
            tx.append("t", [{"id": -1}])
        for _ in range(2):
            with lake.transaction(transaction_id="night-1") as tx:
                tx.append("t", ROWS)
        assert table.version == 1
        assert lake.outcome("night-1").versions == {"t": 1}


def test_run_with_an_id_tries_again_after_a_conflict_and_commits_once(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        table = lake.create("t", ROWS.schema)
        calls = []

        def overwrite(tx: lw.Transaction) -> None:
            tx.overwrite("t", ROWS)
            calls.append(tx.attempts)
            if len(calls) == 1:
                with lake.transaction() as other:
                    other.append("t", ROWS)

        result = lake.run(overwrite, transaction_id="night-2")
        assert result.attempts == 2
        assert lake.run(overwrite, transaction_id="night-2").versions == result.versions
        assert table.version == 2
        assert table.to_arrow().num_rows == 3


def test_a_run_that_always_loses_says_so(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("t", ROWS.schema)

        def lose(tx: lw.Transaction) -> None:
            tx.overwrite("t", ROWS)
            with lake.transaction() as other:
                other.append("t", ROWS)

        with pytest.raises(Conflict):
            lake.run(lose, retry=lw.Retry(attempts=2), transaction_id="night-3")


def test_a_forgotten_transaction_does_not_keep_its_lease(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        lake.create("t", ROWS.schema)
        tx = lake.transaction()
        tx.append("t", ROWS)
        held = lake._keeper._transactions
        assert [own for own, _ in held] == [tx.transaction_id]
        del tx
        gc.collect()
        assert not held


def test_a_guarded_table_of_a_lost_lake_is_taken_over(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lost") as lake:
        location = lake.create("t", ROWS.schema).location
    with lw.open(tmp_path / "new") as lake:
        with pytest.raises(AlreadyExists, match="take_over"):
            lake.adopt("t", location)
        table = lake.adopt("t", location, take_over=True)
        assert table.guarded
        with lake.transaction() as tx:
            tx.append("t", ROWS)
        assert table.to_arrow().equals(ROWS)


def test_a_read_whose_condition_overflows_blames_the_condition(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        table = lake.create("t", ROWS.schema)
        with lake.transaction() as tx:
            tx.append("t", [{"id": 2**62}])
        with pytest.raises(InvalidExpression, match="cannot be computed"):
            table.to_arrow(where="id * 4 > 0")


def test_types_are_written_as_text(tmp_path: Path) -> None:
    with lw.open(tmp_path) as lake:
        mapped = lake.create("a", {"price": "decimal(10,2)", "tags": "list<string>"})
        spelled = lake.create("b", "price decimal(10,2), tags list<string>")
        expected = pa.schema([("price", pa.decimal128(10, 2)), ("tags", pa.list_(pa.string()))])
        assert mapped.schema.to_arrow().types == expected.types
        assert spelled.schema.names == mapped.schema.names
