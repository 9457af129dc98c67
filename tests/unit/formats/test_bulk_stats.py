from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.formats.delta.columns import stats_texts
from lakeward.formats.delta.values import stats_text
from lakeward.model.schema import Schema

PLAIN = Schema.of({"id": "int64", "min": "double", 'quo"ted': "string", "max": "string"})
TIMES = Schema.of({"id": "int64", "at": "timestamp", "day": "date"})
NUMBERED = Schema.of({"2": "int64", "id": "int64"})

TRICKY = st.sampled_from(['{"1":', ',"max":{', '},"loose":true}', "null", ':null,"2":', "\\", '"'])
STRINGS = st.one_of(st.text(max_size=6), TRICKY, st.builds(str.__add__, st.text(), TRICKY))
VALUES = {1: st.integers(-5, 5), 2: st.floats(allow_nan=False, allow_infinity=False)}


@st.composite
def told(draw: st.DrawFn) -> str:
    """Statistics as the log keeps them: some columns, gone ones too, and bounds that may lack."""
    ids = draw(st.lists(st.integers(1, 5), unique=True, max_size=5))
    bounds = {str(i): draw(st.none() | VALUES.get(i, STRINGS)) for i in ids}
    out = {"min": bounds, "max": bounds, "nulls": dict.fromkeys(bounds, draw(st.integers(0, 12)))}
    return orjson.dumps(out | ({"loose": True} if draw(st.booleans()) else {})).decode()


FILES = st.lists(
    st.tuples(st.none() | told(), st.none() | st.integers(0, 12), st.booleans()), max_size=4
)


@settings(deadline=None)
@given(FILES)
def test_many_files_are_spelled_as_each_alone(
    files: list[tuple[str | None, int | None, bool]],
) -> None:
    found = spelled(files, PLAIN)

    assert found == [alone(*file, PLAIN) for file in files]


def test_times_and_dates_are_spelled_as_delta_does() -> None:
    text = '{"min":{"1":1,"2":0,"3":0},"max":{"1":1,"2":1,"3":1},"nulls":{"1":0}}'

    (found,) = spelled([(text, 1, False)], TIMES)

    assert found == alone(text, 1, False, TIMES)
    assert "1970-01-02" in found


def test_a_column_whose_name_is_a_number_is_not_taken_for_another() -> None:
    text = '{"min":{"1":10,"2":20},"max":{"1":11,"2":21},"nulls":{"1":0,"2":1}}'

    (found,) = spelled([(text, 1, False)], NUMBERED)

    assert orjson.loads(found)["minValues"] == {"2": 10, "id": 20}


def spelled(files: Sequence[tuple[str | None, int | None, bool]], schema: Schema) -> list[Any]:
    texts = pa.array([text for text, _, _ in files], pa.string())
    rows = pa.array([count for _, count, _ in files], pa.int64())
    marked = pa.array([mark for _, _, mark in files], pa.bool_())
    return list(stats_texts(texts, rows, marked, schema).to_pylist())


def alone(text: str | None, rows: int | None, marked: bool, schema: Schema) -> str | None:
    if text is None:
        return None if rows is None else f'{{"numRecords":{rows}}}'
    return stats_text(text, rows, schema, has_vector=marked)
