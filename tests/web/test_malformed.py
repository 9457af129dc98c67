"""Broken bodies and files are refused with a 4xx, nothing is written, and the service lives on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.rest import catalog_of, staged, totals
from tests.support.service import ARROW, PARQUET, Service, orders, stream
from tests.support.sizes import sizes

ROWS = "/api/v1/tables/sales.orders/rows"
COMMIT = "/iceberg/v1/namespaces/sales/tables/totals"
REFUSED = {400, 404, 406, 409, 413, 422}


def broken(good: bytes, chance: random.Random, count: int) -> Iterator[bytes]:
    """Bytes cut off, doubled, overwritten and inserted at random places."""
    whole = (b"", good[:-1], good + good, b"\xff" * 64)
    yield from chance.sample(whole, 2)
    for _ in range(count - 2):
        at, length = chance.randrange(len(good)), chance.choice((1, 1, 2, 4, 8, 64))
        new = chance.choice((chance.randbytes(length), b"\xff" * length, b"\0" * length))
        match chance.randrange(4):
            case 0:
                yield good[:at]
            case 1:
                yield good[:at] + new + good[at:]
            case 2:
                yield good[:at] + good[at + length :]
            case _:
                yield good[:at] + new + good[at + length :]


def checked(answer: httpx.Response, hidden: Path) -> int:
    """The status of an answer, which is no 5xx and names no path of the server."""
    assert answer.status_code == 200 or answer.status_code in REFUSED, answer.text
    assert str(hidden) not in answer.text or answer.status_code == 200
    return answer.status_code


@sizes("count", short=100, full=10_000)
def test_rows_that_cannot_be_read_are_refused(
    own: Service, serve: Callable[..., Service], tmp_path: Path, count: int
) -> None:
    _send_broken_rows(own, serve, ARROW, tmp_path, count)


@sizes("count", short=25, full=1000)
def test_parquet_files_that_cannot_be_read_are_refused(
    own: Service, serve: Callable[..., Service], tmp_path: Path, count: int
) -> None:
    """Fewer, because a process is started for each of them."""
    _send_broken_rows(own, serve, PARQUET, tmp_path, count)


def _send_broken_rows(
    own: Service, serve: Callable[..., Service], kind: str, tmp_path: Path, count: int
) -> None:
    client = serve(own.lake, anonymous=None, rate=1e6, burst=1e6).as_("writer")
    table = own.lake.table("sales.orders")
    sink, rows = pa.BufferOutputStream(), orders(*range(1, 50))
    pq.write_table(rows, sink)
    good = stream(rows) if kind == ARROW else sink.getvalue().to_pybytes()
    before, found = table.version, Counter[int]()

    for body in broken(good, random.Random(1), count):
        answer = client.post(ROWS, content=body, headers={"content-type": kind})
        found[checked(answer, tmp_path)] += 1
        # Some changes leave a body that says something else, and can be read.
        assert table.version == before + found[200]

    print(f"{kind}: {dict(found)}")
    assert found[400] > count / 10
    assert own.lake.doctor().healthy


@sizes("count", short=100, full=10_000)
def test_commits_that_are_none_are_refused(
    own: Service, serve: Callable[..., Service], tmp_path: Path, count: int
) -> None:
    client = serve(own.lake, anonymous=None, rate=1e6, burst=1e6).as_("writer")
    table = catalog_of(own).load_table("sales.totals")
    good = orjson.dumps(staged(table, totals(1.0)))
    before, found = own.lake.table("sales.totals").version, Counter[int]()
    path = "/iceberg/v1/transactions/commit"

    for body in broken(b'{"table-changes":[' + good + b"]}", random.Random(2), count):
        answer = client.post(path, content=body)
        if answer.status_code == 204:
            before += 1
            continue
        found[checked(answer, tmp_path)] += 1
        assert own.lake.table("sales.totals").version == before

    print(f"commits: {dict(found)}")
    assert found[400] > count / 10
    assert own.lake.doctor().healthy


def test_a_snapshot_without_an_operation_is_refused(own: Service, tmp_path: Path) -> None:
    change = staged(catalog_of(own).load_table("sales.totals"), totals(1.0))
    del _snapshot(change)["summary"]["operation"]

    answer = own.as_("writer").post(COMMIT, json=change)

    assert checked(answer, tmp_path) == 400
    assert "operation" in answer.text


@sizes("count", short=100, full=10_000)
def test_manifests_that_are_none_are_refused(
    own: Service, serve: Callable[..., Service], tmp_path: Path, count: int
) -> None:
    """The lists and manifests that a commit names are Avro, written by the client."""
    service = serve(own.lake, anonymous=None, rate=1e6, burst=1e6)
    client, chance = service.as_("writer"), random.Random(3)
    table = own.lake.table("sales.totals")
    before, found = table.version, Counter[int]()
    client_table = catalog_of(service).load_table("sales.totals")
    for number in range(count // 10):
        # Some changes can be read: then the next ones begin from what was committed.
        client_table.refresh()
        change = staged(client_table, totals(1.0))
        place = Path(_snapshot(change)["manifest-list"].removeprefix("file://"))
        # Named `snap-<snapshot>-<attempt>-<commit>.avro` and `<commit>-m<number>.avro`.
        manifest = place.with_name(f"{place.stem.split('-', 3)[3]}-m0.avro")
        target = place if number % 2 else manifest
        for body in broken(target.read_bytes(), chance, 10):
            target.write_bytes(body)
            answer = client.post(COMMIT, json=change)
            found[checked(answer, tmp_path)] += 1
            assert table.version == before + found[200]

    print(f"manifests: {dict(found)}")
    assert found[400] > count / 2


@pytest.mark.parametrize("depth", [95, 120, 190, 240, 900])
def test_bodies_that_are_nested_deeply_do_not_end_in_an_error_of_the_service(
    own: Service, tmp_path: Path, depth: int
) -> None:
    client = own.as_("writer")
    filter_: dict[str, Any] = {"type": "is-null", "term": "amount"}
    kind: Any = "long"
    for number in range(depth):
        filter_ = {"type": "not", "child": filter_}
        kind = {"type": "list", "element-id": number + 2, "element": kind}
        kind["element-required"] = False
    field = {"id": 1, "name": "n", "required": False, "type": kind}
    schema = {"type": "struct", "fields": [field]}

    planned = client.post(f"{COMMIT}/plan", json={"filter": filter_})
    created = client.post(COMMIT.rpartition("/")[0], json={"name": "deep", "schema": schema})

    assert checked(planned, tmp_path) == (200 if depth < 199 else 400)
    assert checked(created, tmp_path) == (200 if depth < 97 else 400)
    assert len(own.lake.tables()) == (4 if depth < 97 else 3)


def test_a_name_that_is_no_text_is_refused(own: Service, tmp_path: Path) -> None:
    client = own.as_("writer")
    body = stream(orders(1)).replace(b"amount", b"am\xa4unt")

    answer = client.post(ROWS, content=body, headers={"content-type": ARROW})

    assert checked(answer, tmp_path) == 400


def test_a_length_that_lies_does_not_end_the_process(own: Service, tmp_path: Path) -> None:
    """pyiceberg's fast decoder believes it, and reads memory that is not its own."""
    change = staged(catalog_of(own).load_table("sales.totals"), totals(1.0))
    place = Path(_snapshot(change)["manifest-list"].removeprefix("file://"))
    # A map with one entry, whose key says that it has 2^31 bytes.
    place.write_bytes(b"Obj\x01" + b"\x02" + b"\x80\x80\x80\x80\x10" + b"xx")

    assert checked(own.as_("writer").post(COMMIT, json=change), tmp_path) == 400
    assert own.as_("reader").get("/healthz").status_code == 200


def _snapshot(change: dict[str, Any]) -> dict[str, Any]:
    (added,) = [u for u in change["updates"] if u["action"] == "add-snapshot"]
    found: dict[str, Any] = added["snapshot"]
    return found


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("sql", rb'{"query": "SELECT ?", "params": [-1271246559577886425088]}'),
        ("sql", rb'{"query": "SELECT ?", "params": ["\ud800"]}'),
        ("sql", rb'{"query": "SELECT \ud800"}'),
        ("tables", rb'{"name": "x", "schema": "n int64", "comment": "\ud800"}'),
        ("tables", rb'{"name": "x", "schema": "n int64", "properties": {"\ud800": "a"}}'),
        ("tables/sales.orders/alter", rb'{"changes": ["\ud800"]}'),
        ("restore", rb'{"at": "\ud800"}'),
    ],
)
def test_values_that_only_json_can_spell_are_refused(own: Service, path: str, body: bytes) -> None:
    """Integers of more than 64 bits, and halves of surrogate pairs."""
    headers = {"content-type": "application/json"}
    answer = own.as_("admin").post(f"/api/v1/{path}", content=body, headers=headers)

    assert answer.status_code == 400, answer.text
    assert {t.name for t in own.lake.tables()}.isdisjoint({"x"})
