"""Slices of batches have the rows of the batch, whatever the layout of the columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakeward.engines.arrow import slices

NUMBERS = [[1], None, [2, None], [], [3, 4, 5], [6], [7, 8]]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_view(pa.int32()), NUMBERS),
        (pa.large_list_view(pa.string_view()), [["a"], None, ["b", None], [], ["c"], ["d"], ["e"]]),
        (pa.list_view(pa.list_(pa.int32(), 1)), [[[1]], [], [[2], [3]], None, [[4]], [[5]], [[6]]]),
        (pa.list_(pa.list_view(pa.int32())), [NUMBERS, None, NUMBERS[:2], [], [None], NUMBERS[2:]]),
        (pa.struct([("x", pa.list_view(pa.int64()))]), [{"x": n} for n in NUMBERS] + [None]),
        (pa.map_(pa.string(), pa.list_view(pa.int8())), [[("k", n)] for n in NUMBERS] + [None]),
        (pa.list_(pa.dictionary(pa.int8(), pa.string())), [["a"], None, ["b", "a"], [], ["c"]]),
    ],
    ids=str,
)
def test_values_are_written_out_in_slices(
    kind: pa.DataType, values: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_ROWS", 3)
    batch = pa.record_batch([pa.array(values, kind)], ["c"]).slice(1)
    found = list(slices.written_out(batch))
    for part in found:
        part.validate(full=True)
        assert part.schema == slices.plain_schema(batch.schema)
    assert [row for part in found for row in part["c"].to_pylist()] == values[1:]
