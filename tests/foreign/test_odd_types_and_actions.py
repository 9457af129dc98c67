"""Delta tables with types and actions that the lake does not write: read as far as they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder

import lakeward as lw
from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta import bitmap
from tests.behaviour.lakes import unchanged
from tests.support.delta_log import Log, add, metadata_action

_VARIANT: Final = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["variantType"],
    "writerFeatures": ["variantType"],
}
_FIVE: Final = {"value": b"\x0c\x05", "metadata": b"\x01\x00\x00"}
"""The number 5 as a variant, as Spark writes it."""
_SHOWN: Final = {"metadata": _FIVE["metadata"], "value": _FIVE["value"]}
_STORED: Final = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False),
    ]
)


def _file(log: Log, data: pa.Table, name: str = "a.parquet", **more: Any) -> dict[str, Any]:
    pq.write_table(data, log.root / name)
    return {"add": add(name, size=(log.root / name).stat().st_size, **more)}


def _schema_types(log: Log) -> list[list[Any]]:
    """The types of the columns in every schema that the log has, oldest first."""
    found = []
    for path in sorted(log.path("").glob("*.json")):
        for action in map(json.loads, path.read_text().splitlines()):
            if "metaData" in action:
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                found.append([f["type"] for f in fields])
    return found


@pytest.mark.parametrize("feature", ["variantType", "variantType-preview"])
def test_a_variant_is_shown_as_its_bytes_and_not_written(tmp_path: Path, feature: str) -> None:
    log = Log(tmp_path / "t")
    columns = [
        ("id", "long"),
        ("v", "variant"),
        ("l", {"type": "array", "elementType": "variant", "containsNull": True}),
    ]
    data = pa.table(
        {
            "id": [1, 2],
            "v": pa.array([_FIVE, None], _STORED),
            "l": pa.array([[_FIVE], []], pa.list_(_STORED)),
        }
    )
    protocol = _VARIANT | {"readerFeatures": [feature], "writerFeatures": [feature]}
    log.start(columns, _file(log, data), protocol=protocol)
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)

        assert table.to_arrow().to_pylist() == [
            {"id": 1, "v": _SHOWN, "l": [_SHOWN]},
            {"id": 2, "v": None, "l": []},
        ]
        assert table.to_arrow(columns=["id"], where="v IS NULL")["id"].to_pylist() == [2]
        assert table.to_arrow(columns=["id"], where="id = 1")["id"].to_pylist() == [1]
        refused = pytest.raises(UnsupportedFeature, match="the variant column v")
        with unchanged(lake), refused, lake.transaction() as tx:
            tx.delete("t", where="id = 1")
    assert all(found == _schema_types(log)[0] for found in _schema_types(log))
    with lw.open(tmp_path / "rebuilt") as lake:
        assert lake.adopt("t", log.root, take_over=True).to_arrow()["v"][0].is_valid


def test_variants_that_may_be_in_pieces_are_refused(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    features = ["variantShredding", "variantType"]
    protocol = _VARIANT | {"readerFeatures": features, "writerFeatures": features}
    log.start([("id", "long"), ("v", "variant")], protocol=protocol)
    with lw.open(tmp_path / "lake") as lake, pytest.raises(UnsupportedFeature, match="column v"):
        lake.adopt("t", log.root)


@pytest.mark.parametrize("kind", ["void", "null"])
def test_a_void_column_is_null_and_the_others_are_read(tmp_path: Path, kind: str) -> None:
    log = Log(tmp_path / "t")
    log.start([("id", "long"), ("n", kind)], _file(log, pa.table({"id": [1, 2]})))
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)

        assert table.to_arrow().to_pylist() == [{"id": 1, "n": None}, {"id": 2, "n": None}]
        assert table.to_arrow(where="n IS NULL AND id = 2")["id"].to_pylist() == [2]
        refused = pytest.raises(UnsupportedFeature, match=f"the {kind} column n")
        with unchanged(lake), refused, lake.transaction() as tx:
            tx.append("t", [{"id": 3}])
    assert all(found == ["long", kind] for found in _schema_types(log))


@pytest.mark.parametrize("kind", ["interval day to second", "interval year to month"])
def test_a_type_that_cannot_be_held_is_named_with_its_column(tmp_path: Path, kind: str) -> None:
    log = Log(tmp_path / "t")
    log.start([("id", "long"), ("took", kind)])
    with lw.open(tmp_path / "lake") as lake, pytest.raises(UnsupportedFeature) as caught:
        lake.adopt("t", log.root)
    assert "took" in str(caught.value)
    assert kind in str(caught.value)
    assert "damaged" not in str(caught.value)


def test_a_newer_writer_version_is_not_called_a_demand_on_readers(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    log.start(protocol={"minReaderVersion": 1, "minWriterVersion": 8})
    with lw.open(tmp_path / "lake") as lake, pytest.raises(UnsupportedFeature) as caught:
        lake.adopt("t", log.root)
    assert "version 8 of its writers" in str(caught.value)
    assert "readers" not in str(caught.value)


@pytest.mark.parametrize("body", [5, "text", [1, 2], True, {"a": 1}, None])
def test_an_unknown_action_of_any_shape_is_ignored(tmp_path: Path, body: Any) -> None:
    log = Log(tmp_path / "t")
    log.start([("id", "long")], _file(log, pa.table({"id": [1]})), {"fromTheFuture": body})
    with lw.open(tmp_path / "lake") as lake:
        assert lake.adopt("t", log.root).to_arrow()["id"].to_pylist() == [1]


_EXAMPLE: Final = {
    "storageType": "i",
    "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 40,
    "cardinality": 6,
}
"""The example of Delta's protocol; it deletes the rows below."""
_EXAMPLE_ROWS: Final = [3, 4, 7, 11, 18, 29]


def test_an_inline_vector_with_the_older_magic_number_is_read(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, **features}
    file = _file(log, pa.table({"id": range(40)}), deletionVector=_EXAMPLE)
    log.start([("id", "long")], file, protocol=protocol)
    left = [n for n in range(40) if n not in _EXAMPLE_ROWS]
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root)

        assert table.to_arrow()["id"].to_pylist() == left
        with lake.transaction() as tx:
            tx.delete("t", where="id = 0")
        assert table.to_arrow()["id"].to_pylist() == left[1:]
    theirs = QueryBuilder().register("t", DeltaTable(log.root)).execute("SELECT id FROM t")
    assert sorted(pa.table(theirs)["id"].to_pylist()) == left[1:]


@pytest.mark.parametrize("order", ["little", "big"])
def test_the_older_form_counts_bitmaps_of_32_bits(order: Any) -> None:
    from pyroaring import BitMap

    parts = [BitMap([1, 5]), BitMap(), BitMap([7])]
    data = (1681511376).to_bytes(4, order) + len(parts).to_bytes(4, order)
    for part in parts:
        data += len(part.serialize()).to_bytes(4, order) + part.serialize()

    assert list(bitmap.decode(data)) == [1, 5, 7 + (2 << 32)]


def test_metadata_with_a_variant_keeps_its_ids(tmp_path: Path) -> None:
    log = Log(tmp_path / "t")
    columns = [("v", "variant"), ("id", "long")]
    log.start(columns, protocol=_VARIANT)
    log.commit({"metaData": metadata_action([*columns, ("more", "string")])})
    with lw.open(tmp_path / "lake") as lake:
        table = lake.adopt("t", log.root, guard=False)
        before, after = (table.at(version=v).schema for v in (0, 1))
    assert [f.id for f in before.walk()] == [f.id for f in after.walk()][:-1]
