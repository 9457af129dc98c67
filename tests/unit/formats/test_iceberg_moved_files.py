"""Deletion vectors in Puffin files name their data file in the footer, which is moved with it."""

from __future__ import annotations

import orjson
import pytest
from pyiceberg.table.puffin import PuffinFile

from lakeward.errors import UnsupportedFeature
from lakeward.formats.iceberg.moved import moved_deletes

BLOB = b"some deletion vector"


def puffin(*paths: str, flags: bytes = bytes(4)) -> bytes:
    """A Puffin file with a blob for each data file."""
    blobs = [
        {
            "type": "deletion-vector-v1",
            "fields": [2147483645],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": 4 + n * len(BLOB),
            "length": len(BLOB),
            "properties": {"referenced-data-file": path, "cardinality": "1"},
        }
        for n, path in enumerate(paths)
    ]
    footer = orjson.dumps({"blobs": blobs, "properties": {}})
    size = len(footer).to_bytes(4, "little")
    return b"PFA1" + BLOB * len(paths) + b"PFA1" + footer + size + flags + b"PFA1"


def test_a_puffin_file_names_the_moved_data_files_and_keeps_its_blobs() -> None:
    data = puffin("/old/a", "/old/b")

    moved = PuffinFile(
        moved_deletes("dv.puffin", "PUFFIN", data, lambda p: p.replace("/old", "/a/new/place"))
    )

    names = [b.properties["referenced-data-file"] for b in moved.footer.blobs]
    assert names == ["/a/new/place/a", "/a/new/place/b"]
    assert [moved.get_blob_payload(b) for b in moved.footer.blobs] == [BLOB, BLOB]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("PUFFIN", puffin("/old/a", flags=b"\1\0\0\0")),
        ("PUFFIN", puffin("/old/a")[:-4] + b"PFA2"),
        ("AVRO", b"Obj\1"),
    ],
)
def test_what_cannot_be_written_anew_is_refused(kind: str, data: bytes) -> None:
    with pytest.raises(UnsupportedFeature):
        moved_deletes("dv", kind, data, str)
