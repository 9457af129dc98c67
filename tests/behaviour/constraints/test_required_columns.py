"""Required columns and parts: a missing value is refused wherever it hides."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.errors import ConstraintViolation
from tests.behaviour.lakes import append, overwrite, unchanged

pytestmark = pytest.mark.before_the_store

_REQUIRED = pa.field("n", pa.int64(), nullable=False)
_PART = pa.struct([_REQUIRED])

_CASES: dict[str, tuple[pa.Field, list[Any], list[Any], int]] = {
    "column": (pa.field("x", pa.int64(), nullable=False), [1, 2], [1, None, None], 2),
    "struct": (pa.field("x", _PART, nullable=False), [{"n": 1}], [{"n": 1}, None], 1),
    "part of a struct": (pa.field("x", _PART), [None, {"n": 1}], [None, {"n": None}], 1),
    "part of a part": (
        pa.field("x", pa.struct([pa.field("s", _PART)])),
        [None, {"s": None}, {"s": {"n": 1}}],
        [{"s": None}, {"s": {"n": None}}],
        1,
    ),
    "element of a list": (
        pa.field("x", pa.list_(pa.field("element", pa.int64(), nullable=False))),
        [None, [], [1, 2]],
        [[1], [None, 2, None]],
        2,
    ),
    "part of an element": (
        pa.field("x", pa.list_(_PART)),
        [None, [], [None, {"n": 1}]],
        [[None, {"n": None}]],
        1,
    ),
    "value of a map": (
        pa.field("x", pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False))),
        [None, [], [("a", 1)]],
        [[("a", None)]],
        1,
    ),
    "element of a list in a map": (
        pa.field(
            "x",
            pa.map_(pa.string(), pa.list_(pa.field("element", pa.string(), nullable=False))),
        ),
        [[("a", None), ("b", ["x"])]],
        [[("a", ["x", None])]],
        1,
    ),
}


def _loose(kind: pa.DataType) -> pa.DataType:
    """The type with every part nullable: data does not say of itself what the table requires."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _loose(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(_loose(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _loose(kind.item_type))
    return kind


@pytest.mark.parametrize("case", _CASES)
def test_missing_values_are_allowed_where_they_may_be(
    shared_lake: lw.Lake, name: str, case: str
) -> None:
    field, good, _, _ = _CASES[case]
    table = shared_lake.create(name, pa.schema([field]))

    append(shared_lake, name, {"x": good})
    append(shared_lake, name, pa.table({"x": pa.array(good, _loose(field.type))}))

    assert table.to_arrow()["x"].to_pylist() == good + good


@pytest.mark.parametrize("case", _CASES)
@pytest.mark.parametrize("form", ["python", "arrow", "overwrite"])
def test_missing_values_are_refused_where_they_must_not_be(
    shared_lake: lw.Lake, name: str, case: str, form: str
) -> None:
    field, good, bad, count = _CASES[case]
    shared_lake.create(name, pa.schema([field]))
    append(shared_lake, name, {"x": good})
    data = {"x": bad} if form == "python" else pa.table({"x": pa.array(bad, _loose(field.type))})

    with unchanged(shared_lake), pytest.raises(ConstraintViolation) as caught:
        (overwrite if form == "overwrite" else append)(shared_lake, name, data)

    error = caught.value
    assert error.table == name
    assert error.column.split(".")[0] == "x"
    assert error.count == count
    assert name in str(error)


def test_rows_with_missing_values_are_shown(shared_lake: lw.Lake, name: str) -> None:
    shared_lake.create(name, pa.schema([pa.field("id", pa.int64(), nullable=False)]))

    with pytest.raises(ConstraintViolation) as caught:
        append(shared_lake, name, {"id": [1, None, 3, None]})

    assert caught.value.sample == [{"row": 1}, {"row": 3}]
    assert caught.value.constraint == "id is not null"
