"""Keys looked up in bulk, against every row compared with every other."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.engines.arrow.keys import KeyIndex, equal_rows, picked

_KINDS = [pa.int64(), pa.string(), pa.float64()]
_VALUES: list[st.SearchStrategy[Any]] = [
    st.none() | st.integers(0, 2),
    st.none() | st.sampled_from("abc"),
    st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan]),
]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3))
def test_pairs_are_those_of_equal_keys(data: st.DataObject, kinds: list[int]) -> None:
    keys = st.lists(st.tuples(*(_VALUES[k] for k in kinds)), max_size=6)
    known, asked = data.draw(keys), data.draw(keys)

    index = KeyIndex(_columns(known, kinds))
    found = index.find(_columns(asked, kinds))

    pairs = list(zip(found.rows.tolist(), found.partners.tolist(), strict=True))
    expected = [
        (a, k)
        for a, key in enumerate(asked)
        for k, other in enumerate(known)
        if all(_equal(x, y) for x, y in zip(key, other, strict=True))
    ]
    assert sorted(pairs) == expected
    assert found.rows.tolist() == sorted(found.rows.tolist())


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.integers(), max_size=4), min_size=1, max_size=4).filter(any),
    st.data(),
)
def test_rows_are_picked_in_the_order_of_their_places(
    parts: list[list[int]], data: st.DataObject
) -> None:
    rows = [n for part in parts for n in part]
    places = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=6))
    chunks = [pa.array([str(n) for n in part], pa.string()) for part in parts]

    found = picked(pa.table({"n": pa.chunked_array(chunks)}), np.array(places, dtype=np.int64))

    assert found["n"].to_pylist() == [str(rows[p]) for p in places]


@settings(max_examples=200, deadline=None)
@given(st.data(), st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=3))
def test_equal_rows_are_paired_once(data: st.DataObject, kinds: list[int]) -> None:
    rows = st.lists(st.tuples(*(_VALUES[k] for k in kinds)), max_size=6)
    left, right = data.draw(rows), data.draw(rows)
    names = [str(n) for n in range(len(kinds))]

    own, others = equal_rows(
        *(pa.table(_columns(side, kinds), names=names) for side in (left, right))
    )

    counts = [
        Counter(repr([v + 0.0 if v == 0 else v for v in r]) for r in s) for s in (left, right)
    ]
    paired = [
        Counter(repr([v + 0.0 if v == 0 else v for v in side[place]]) for place in places)
        for side, places in ((left, own.tolist()), (right, others.tolist()))
    ]
    assert paired[0] == paired[1] == counts[0] & counts[1]
    assert own.tolist() == sorted(set(own.tolist()))
    assert others.tolist() == sorted(set(others.tolist()))


def _columns(keys: list[tuple[Any, ...]], kinds: list[int]) -> list[pa.ChunkedArray]:
    return [
        pa.chunked_array([pa.array([key[n] for key in keys], _KINDS[kind])])
        for n, kind in enumerate(kinds)
    ]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    return a is not None and b is not None and bool(a == b)
