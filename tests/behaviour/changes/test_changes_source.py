"""The data source by which Spark reads changes, used as Spark's Python processes use it."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.spark.changes_source import _source_class, _spark_schema
from lakeward.errors import InvalidInput
from lakeward.lake.spark_changes import _described, _source

cloudpickle = pytest.importorskip("pyspark.cloudpickle")


def source(lake: lw.Lake, table: lw.Table, **given: str) -> tuple[Any, Any, dict[str, str]]:
    """The source as it arrives in another process, and the schema and options of a query."""
    schema, options = _described(table.at(), 1, None, None, "id")
    made = cloudpickle.dumps((_source_class(_source(lake)), _spark_schema(schema)))
    kind, columns = pickle.loads(made)
    options |= {"tasks": "4", **given}
    return kind(options), columns, options


def rows(reader: Any, partitions: list[Any]) -> list[dict[str, Any]]:
    return [r for p in partitions for batch in reader.read(p) for r in batch.to_pylist()]


def test_ranges_and_offsets_give_each_change_once(lake: lw.Lake) -> None:
    table = lake.create("s.t", "id int64, v string")
    for n in range(20):
        table.append({"id": [n], "v": ["a"]})
    table.update(set={"v": "'b'"}, where="id < 3")
    found, columns, options = source(lake, table, since="1", until="21")
    assert not any("lake" in str(value) for value in options.values()), "the address is no option"
    expected = table.changes(since=1, until=21, key="id").read_all().to_pylist()
    reader = found.reader(columns)
    assert len(reader.partitions()) == 3
    assert rows(reader, reader.partitions()) == expected

    stream = found.streamReader(columns)
    start = stream.initialOffset()
    middle = {**start, "version": 7}
    end = json.loads(json.dumps(stream.latestOffset()))
    assert end["version"] == 21
    first, second = (stream.partitions(*span) for span in ((start, middle), (middle, end)))
    assert rows(stream, first) + rows(stream, second) == expected
    assert rows(stream, stream.partitions(end, end)) == []
    # A batch that is run again is the same, whatever was committed meanwhile.
    table.delete(where="true")
    assert rows(stream, stream.partitions(middle, end)) == rows(stream, second)
    assert stream.latestOffset()["version"] == 22
    stream.stop()


def test_a_type_that_was_restored_away_is_the_same_in_all_parts(lake: lw.Lake) -> None:
    table = lake.create("s.t", "id int64, v int32")
    for n in range(10):
        table.append({"id": [n], "v": [n]})
    table.alter().change_type("v", "int64").commit()
    table.append({"id": [10], "v": [2**40]})
    with lake.transaction() as tx:
        tx.restore("s.t", version=10)
    found, columns, _ = source(lake, table, since="1", until="13")
    reader = found.reader(columns)
    expected = table.changes(since=1, key="id").read_all()
    parts = [batch for p in reader.partitions() for batch in reader.read(p)]
    assert {batch.schema.field("v").type for batch in parts} == {pa.int64()}
    assert [row for batch in parts for row in batch.to_pylist()] == expected.to_pylist()
    stream = found.streamReader(columns)
    start = {**stream.initialOffset(), "version": 13}
    table.alter().change_type("v", "int64").commit()
    table.append({"id": [11], "v": [2**41]})
    with lake.transaction() as tx:
        tx.restore("s.t", version=10)
    same = stream.latestOffset()
    assert [r["v"] for r in rows(stream, stream.partitions(start, same))] == [2**41] * 2
    stream.stop()


def test_other_columns_and_other_tables_end_a_stream(lake: lw.Lake) -> None:
    table = lake.create("s.t", "id int64")
    table.append({"id": [1]})
    found, columns, _ = source(lake, table, since="0")
    stream = found.streamReader(columns)
    start = stream.initialOffset()
    table.alter().add_column("more", "int64").commit()
    with pytest.raises(InvalidInput, match="changed between versions 1 and 2"):
        stream.partitions(start, stream.latestOffset())
    assert stream.partitions(start, {**start, "version": 1})

    lake.drop("s.t")
    again = lake.create("s.t", "id int64")
    with pytest.raises(InvalidInput, match="another one was made"):
        stream.latestOffset()
    stream.stop()
    found, columns, _ = source(lake, again, since="0")
    with pytest.raises(InvalidInput, match="The checkpoint is of another table"):
        found.streamReader(columns).partitions(start, start)
