"""Metadata documents: what is written is what is read, on the quick way and on the slow one."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.errors import CorruptTable
from lakeward.formats.iceberg.document import Document, parse

_BODY: dict[str, Any] = {
    "format-version": 2,
    "last-updated-ms": 5,
    "last-sequence-number": 0,
    "current-snapshot-id": None,
    "refs": {},
    "properties": {},
}
_TRICKY = ('],"snapshot-log":[', ',"snapshots":[', '{"snapshot-id":', '],"metadata-log":[', "]}")
_TEXTS = st.text(max_size=20) | st.sampled_from(_TRICKY)


def _grown(texts: list[str], body: dict[str, Any] | None = None) -> Document:
    document = Document("0", body or _BODY)
    for number, text in enumerate(texts, 1):
        snapshot = {
            "snapshot-id": number,
            "sequence-number": number,
            "timestamp-ms": 5 + number,
            "manifest-list": f"list-{number}",
            "summary": {"operation": "append", "note": text},
        }
        document = document.after(str(number), 5 + number).with_snapshot(snapshot)
    return document


@settings(deadline=None)
@given(st.lists(_TEXTS, max_size=5), st.dictionaries(_TEXTS, _TEXTS, max_size=3))
def test_what_was_encoded_is_parsed_as_it_was(texts: list[str], properties: dict[str, str]) -> None:
    document = _grown(texts, {**_BODY, "properties": properties})
    assert parse(document.location, document.encode()) == document


@settings(deadline=None)
@given(st.lists(_TEXTS, max_size=5))
def test_a_document_of_others_is_parsed_to_the_same(texts: list[str]) -> None:
    document = _grown(texts)
    # Others write the words in another order, and with spaces.
    whole = orjson.loads(document.encode())
    theirs = orjson.dumps(dict(sorted(whole.items())), option=orjson.OPT_INDENT_2)
    found = parse(document.location, theirs)
    assert found.all_snapshots() == document.all_snapshots()
    assert found.current == document.current
    assert orjson.loads(found.encode()) == whole


def test_a_rollback_is_not_taken_for_the_newest_snapshot() -> None:
    document = _grown(["a", "b"])
    rolled_back = Document(
        "3",
        {**document.body, "current-snapshot-id": 1},
        document.snapshots,
        document.snapshot_log,
        document.metadata_log,
    )
    found = parse("3", rolled_back.encode())
    assert found.current is not None
    assert found.current["snapshot-id"] == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"format-version":2}',
        _grown(["a"]).encode()[:-3],
        _grown(["a"]).encode().replace(b'"current-snapshot-id":1', b'"current-snapshot-id":9'),
        b"\x1f\x8bnot gzip",
    ],
)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptTable):
        parse("x.metadata.json", data)
