"""A definition comes back from its JSON, and one without derived values is spelled as ever."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.log.codec import dumps, loads
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.schema import Schema
from lakeward.model.transform import Rules, Transform

SCHEMA = Schema.from_arrow(
    pa.schema(
        [
            ("id", pa.int64()),
            ("ts", pa.timestamp("us", "UTC")),
            ("region", pa.string()),
            ("ts_day", pa.date32()),
        ]
    )
)
HIDDEN = Definition(
    SCHEMA,
    (-1000, 3, -1001),
    derived={
        -1000: Derived(2, Transform("day"), "ts_day", indexed=True),
        -1001: Derived(1, Transform("bucket", 16), "id_bucket"),
    },
)
GENERATED = Definition(
    SCHEMA,
    (4, 3),
    derived={4: Derived(2, Transform("day", rules=Rules.SPARK), "ts_day", utc=False)},
)


@pytest.mark.parametrize("definition", [HIDDEN, GENERATED, Definition(SCHEMA, (3,))])
def test_a_definition_comes_back_from_its_text(definition: Definition) -> None:
    assert Definition.from_json(loads(dumps(definition.to_json()))) == definition


def test_a_definition_of_a_store_in_the_field_has_nothing_derived() -> None:
    body = Definition(SCHEMA, (3,)).to_json()
    assert "derived" not in body
    assert Definition.from_json(body).derived == {}


def test_partitions_are_named_and_spelled() -> None:
    assert HIDDEN.partition_names == ["ts_day", "region", "id_bucket"]
    assert HIDDEN.partitioning == ["day(ts)", "region", "bucket(16, id)"]
    assert GENERATED.partition_names == ["ts_day", "region"]
    assert GENERATED.partitioning == ["day(ts)", "region"]


def test_hidden_values_have_fields_and_rows_in_the_index() -> None:
    day, region, bucket = HIDDEN.partition_fields
    assert (str(day.type), str(region.type), str(bucket.type)) == ("date", "string", "int32")
    assert day in HIDDEN.indexed
    assert bucket not in HIDDEN.indexed
    assert set(SCHEMA.indexed) <= set(HIDDEN.indexed)
