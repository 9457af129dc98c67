"""Deletion vectors: what is written is read back, and damage is found out."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeward.errors import CorruptTable
from lakeward.formats.delta import bitmap, vectors

NAME = uuid.UUID("d2c639aa-8816-431a-aaf6-d3fe2512ff61")
POSITIONS = st.sets(
    st.one_of(st.integers(0, 5000), st.integers(2**31 - 5, 2**33 + 5)), min_size=1, max_size=200
)


def no_file(path: str) -> bytes:
    raise AssertionError(path)


@settings(max_examples=60, deadline=None)
@given(st.lists(POSITIONS, min_size=1, max_size=5))
def test_vectors_of_one_file_are_read_back_each_by_its_descriptor(found: list[set[int]]) -> None:
    sets = [bitmap.bitmap(pa.array(sorted(f, reverse=True), pa.int64())) for f in found]
    data, descriptors = bitmap.vector_bytes(NAME, sets)
    path = vectors.file_name(NAME)

    for meant, descriptor in zip(found, descriptors, strict=True):
        read = bitmap.read(descriptor, {path: data}.__getitem__)
        assert read == BitMap64(meant)
        assert list(read) == sorted(meant)
        assert descriptor["cardinality"] == len(meant)
        begin = descriptor["offset"] + 4
        theirs = data[begin + 4 : begin + descriptor["sizeInBytes"]]
        assert set(BitMap64.deserialize(theirs)) == meant


def test_a_vector_that_another_engine_put_into_its_log_is_read() -> None:
    descriptor = {
        "storageType": "i",
        "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 44,
        "cardinality": 6,
    }

    assert list(bitmap.read(descriptor, no_file)) == [3, 4, 7, 11, 18, 29]


def test_positions_may_be_a_part_of_an_array_or_none() -> None:
    numbers = pa.array(range(10), pa.int64())

    assert set(bitmap.bitmap(numbers.slice(3, 2))) == {3, 4}
    assert set(bitmap.bitmap(pa.chunked_array([numbers.slice(8), numbers.slice(0, 1)]))) == {
        0,
        8,
        9,
    }
    assert not bitmap.bitmap(numbers.slice(0, 0))


@pytest.mark.parametrize(("place", "byte"), [(0, 2), (4, 77), (5, 0), (20, 255), (-1, 0)], ids=str)
def test_a_damaged_file_is_found_out(place: int, byte: int) -> None:
    data, (descriptor,) = bitmap.vector_bytes(NAME, [BitMap64([1, 5, 70000])])
    damaged = bytearray(data)
    assert damaged[place] != byte
    damaged[place] = byte

    with pytest.raises(CorruptTable) as caught:
        bitmap.read(descriptor, lambda _: bytes(damaged))
    assert caught.value.path == vectors.file_name(NAME)


@pytest.mark.parametrize(
    "change",
    [
        {"cardinality": 4},
        {"offset": 2},
        {"sizeInBytes": 10**6},
        {"cardinality": None},
        {"storageType": "i", "pathOrInlineDv": "~~~~~"},
        {"storageType": "i", "pathOrInlineDv": "00000"},
    ],
    ids=str,
)
def test_a_descriptor_that_is_wrong_is_found_out(change: dict[str, Any]) -> None:
    data, (descriptor,) = bitmap.vector_bytes(NAME, [BitMap64([1, 5, 70000])])
    wrong = {k: v for k, v in {**descriptor, **change}.items() if v is not None}

    with pytest.raises(CorruptTable):
        bitmap.read(wrong, lambda _: data)


def test_a_file_tells_which_transaction_wrote_it() -> None:
    path = "a/" + vectors.file_name(vectors.new_name("mine"))

    assert vectors.is_of(path, ["other", "mine"])
    assert not vectors.is_of(path, ["other"])
    assert not vectors.is_of("part-00000-mine.parquet", ["mine"])
    assert vectors.new_name("mine") != vectors.new_name("mine")
    assert vectors.decoded(vectors.named(NAME)) == NAME.bytes
