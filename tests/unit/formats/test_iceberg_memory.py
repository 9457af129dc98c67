"""What is remembered of Iceberg metadata: never more than there is room for."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from lakeward.formats.iceberg.document import Document
from lakeward.formats.iceberg.memory import Memory


@dataclass(frozen=True)
class _Manifest:
    manifest_path: str


_BODY = {"format-version": 2, "last-updated-ms": 1}


def _document(name: str, size: int = 0, manifest_list: str | None = None) -> Document:
    current = None if manifest_list is None else {"manifest-list": manifest_list}
    return Document(name, _BODY, snapshots=b"x" * size, current=current)


def _unread(name: str) -> bytes:
    pytest.fail(f"{name} was read again")


def test_a_written_document_is_not_read_again() -> None:
    memory = Memory()
    first, second = _document("1", manifest_list="list-1"), _document("2", manifest_list="list-2")
    manifest = _Manifest("m")
    memory.renew(first, second, [manifest], {"m": ["entry"]}, {"n": b"bytes"})
    assert memory.document("2", _unread) is second
    assert memory.manifests("list-2", lambda name: pytest.fail(name)) == [manifest]
    assert memory.entries("m", lambda name: pytest.fail(name)) == ["entry"]
    assert memory.content("n", _unread) == b"bytes"


def test_a_document_gives_way_to_the_next_one() -> None:
    memory = Memory()
    first, second = _document("1", manifest_list="list-1"), _document("2", manifest_list="list-2")
    gone, stays = _Manifest("gone"), _Manifest("stays")
    entries = {"gone": ["old"], "stays": ["entry"]}
    memory.renew(_document("0"), first, [gone, stays], entries, {})
    memory.renew(first, second, [stays], {}, {})
    assert memory.entries("gone", lambda _: ["read"]) == ["read"]
    assert memory.entries("stays", lambda name: pytest.fail(name)) == ["entry"]
    assert memory.manifests("list-1", lambda _: ["read"]) == ["read"]
    encoded = first.encode()
    assert memory.document("1", lambda _: encoded) is not first


def test_what_is_used_least_is_forgotten_when_there_is_no_room() -> None:
    memory = Memory(room=50_000)
    for number in range(3):
        memory.renew(_document("none"), _document(str(number), size=10_000), [], {}, {})
        memory.document("0", _unread)
    again = _document("1").encode()
    assert memory.document("1", lambda _: again).snapshots == b""
    memory.document("0", _unread)
