"""A point lookup opens only files that may have the key, by their Bloom filters."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lakeward as lw

_FILES = 12


def _make(lake: lw.Lake, name: str, **options: object) -> lw.Table:
    schema = pa.schema([("k", pa.string()), ("n", pa.int64())])
    table = lake.create(name, schema, properties={"lakeward.bloom": "k,n"}, **options)  # type: ignore[arg-type]
    for file in range(_FILES):
        # Every file spans all keys, so that bounds exclude none.
        ids = [file + _FILES * n for n in range(200)] + [10**9 + file]
        table.append(pa.table({"k": [f"{i * 7919 % 10**6:06d}-{i}" for i in ids], "n": ids}))
    return table


def test_a_key_is_looked_up_in_the_files_that_may_have_it(shared_lake: lw.Lake, name: str) -> None:
    table = _make(shared_lake, name)
    for number in (5, 100, 1000):
        key = f"{number * 7919 % 10**6:06d}-{number}"
        where = f"k = '{key}'"
        assert len(table.files(where=where)) <= 3
        assert table.to_arrow(where=where)["n"].to_pylist() == [number]
        assert table.to_arrow(where=f"n IN ({number}, {number + 1})").num_rows == 2
    assert len(table.files(where="k = '5'")) <= 3
    assert table.count("k > '5'") > 0


def test_filters_are_kept_by_a_compaction_and_by_changes_of_rows(
    shared_lake: lw.Lake, name: str
) -> None:
    table = _make(shared_lake, name)
    table.update(set={"k": "'changed'"}, where="n = 17")
    table.optimize(target_size=8_000)

    assert len(table.files()) > 3
    assert table.to_arrow(where="k = 'changed'")["n"].to_pylist() == [17]
    assert len(table.files(where="k = 'changed'")) < len(table.files())


@pytest.mark.formats("iceberg")
def test_a_renamed_column_is_not_mistaken_for_another(shared_lake: lw.Lake, name: str) -> None:
    table = _make(shared_lake, name)
    table.alter().rename_column("k", "old").add_column("k", "string").commit()
    table.append(pa.table({"old": ["x"], "n": [-1], "k": ["000005-x"]}))

    assert table.to_arrow(where="k = '000005-x'")["n"].to_pylist() == [-1]
    first = f"{5 * 7919 % 10**6:06d}-5"
    assert table.to_arrow(where=f"old = '{first}'")["n"].to_pylist() == [5]
    assert table.count("k IS NULL") == _FILES * 201
