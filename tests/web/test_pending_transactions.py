"""Transactions over several requests: all of them or none, once, and for those who may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import StoreUnavailable
from tests.support.service import ARROW, PARQUET, Service, orders, stream

PATH = "/api/v1/transactions"


def begin(client: httpx.Client, name: str = "night-17", **more: Any) -> httpx.Response:
    return client.post(PATH, json={"id": name, **more})


def send(
    client: httpx.Client, table: str, rows: pa.Table, name: str = "night-17", **query: Any
) -> httpx.Response:
    """Add an operation with rows."""
    number = query.pop("number", None)
    headers = {"content-type": ARROW}
    if number is not None:
        headers["x-lakeward-operation"] = str(number)
    return client.post(
        f"{PATH}/{name}/rows",
        params={"table": table, **query},
        content=stream(rows),
        headers=headers,
    )


def do(client: httpx.Client, name: str = "night-17", **operation: Any) -> httpx.Response:
    """Add an operation without rows."""
    return client.post(f"{PATH}/{name}/operations", json=operation)


def commit(client: httpx.Client, name: str = "night-17", **body: Any) -> httpx.Response:
    return client.post(f"{PATH}/{name}/commit", json=body)


def test_several_requests_are_one_commit_of_both_formats(own: Service) -> None:
    client = own.as_("admin", name="etl")
    totals = pa.table({"region": ["us"], "amount": [9.0]})

    answers = [
        begin(client, message="the night"),
        send(client, "sales.orders", orders(7, 8)),
        send(client, "sales.totals", totals, op="overwrite", where="region = 'us'"),
        send(client, "sales.orders", orders(1, 9), op="merge", on="id"),
        do(client, op="delete", table="sales.orders", where="id = 8"),
        do(client, op="update", table="sales.totals", set={"amount": "amount + 1"}),
        do(client, op="create", table="sales.new", schema="id int64", format="iceberg"),
        do(client, op="alter", table="sales.new", changes=["ADD COLUMN note string"]),
        do(client, op="drop", table="gold.secret_plans"),
    ]

    assert [a.status_code for a in answers] == [201] + [200] * 8, [a.text for a in answers]
    lake = own.lake
    assert lake.table("sales.orders").version == 2, "nothing is visible before the commit"
    assert len(client.get(f"{PATH}/night-17/operations").json()["operations"]) == 8
    done = commit(client)
    assert done.status_code == 200, done.text
    assert set(done.json()["versions"]) == {"sales.orders", "sales.totals", "sales.new"}
    assert sorted(lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 7, 9]
    assert sorted(lake.table("sales.totals").to_arrow()["amount"].to_pylist()) == [7.0, 10.0]
    assert lake.table("sales.new").schema.names == ["id", "note"]
    assert lake.table("sales.new").format == "iceberg"
    assert "gold.secret_plans" not in {t.name for t in lake.tables()}
    newest = lake.table("sales.orders").history(limit=1)[0]
    assert (newest.transaction_id, newest.actor, newest.message) == ("night-17", "etl", "the night")
    # Sent again, it is the same; nothing is left of it.
    assert commit(client).json()["versions"] == done.json()["versions"]
    assert lake.table("sales.orders").version == 3
    assert not any((Path(lake.warehouse) / "_pending").iterdir())
    assert lake.doctor().healthy


def test_an_operation_that_is_sent_twice_counts_once(own: Service) -> None:
    client = own.as_("writer")
    assert [begin(client).status_code for _ in range(2)] == [201, 201]

    twice = [send(client, "sales.orders", orders(7), number=1) for _ in range(2)]
    other = send(client, "sales.orders", orders(8), number=1)

    assert [a.status_code for a in twice] == [200, 200], twice[-1].text
    assert other.status_code == 400
    assert [a.json()["bytes"] for a in twice] == [len(stream(orders(7)))] * 2
    commit(client)
    assert own.lake.table("sales.orders").count() == 6


def test_other_rows_take_the_place_of_a_request_that_failed(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.log import pending

    client, insert = own.as_("writer"), pending.insert
    begin(client)

    def fails(*_: Any) -> bool:
        what = "The store is away."
        raise StoreUnavailable(what)

    monkeypatch.setattr(pending, "insert", fails)
    failed = send(client, "sales.orders", orders(7), number=1)
    monkeypatch.setattr(pending, "insert", insert)
    other = [send(client, "sales.orders", orders(8), number=1) for _ in range(2)]

    assert failed.status_code == 503
    assert [a.status_code for a in other] == [200, 200], other[0].text
    assert commit(client).status_code == 200
    assert sorted(own.lake.table("sales.orders").to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 8]


@pytest.mark.parametrize("ids", [(7, 7), (7, 8)])
def test_operations_without_numbers_at_the_same_time_are_all_kept(
    own: Service, monkeypatch: pytest.MonkeyPatch, ids: tuple[int, int]
) -> None:
    begin(own.as_("writer", name="etl"))
    storage = type(context_of(own.lake).storage)
    make, both = storage.make_directory, threading.Barrier(2)

    def together(self: Any, path: str) -> None:
        """Let both requests go on only when the other is as far."""
        both.wait(30)
        make(self, path)

    clients = [own.as_("writer", name="etl") for _ in ids]
    monkeypatch.setattr(storage, "make_directory", together)
    with ThreadPoolExecutor(2) as pool:
        sent = list(
            pool.map(lambda c, n: send(c, "sales.orders", orders(n)).status_code, clients, ids)
        )
    monkeypatch.setattr(storage, "make_directory", make)

    assert sent == [200, 200]
    assert commit(clients[0]).status_code == 200
    found = sorted(own.lake.table("sales.orders").to_arrow()["id"].to_pylist())
    assert found == [1, 2, 3, 4, 5, *ids]


def test_rows_may_be_parquet(own: Service) -> None:
    client, sink = own.as_("writer"), pa.BufferOutputStream()
    pq.write_table(orders(7), sink)
    begin(client)

    sent = client.post(
        f"{PATH}/night-17/rows?table=sales.orders",
        content=sink.getvalue().to_pybytes(),
        headers={"content-type": PARQUET},
    )

    assert sent.status_code == 200, sent.text
    assert commit(client).status_code == 200
    assert own.lake.table("sales.orders").count() == 6


def test_what_the_table_refuses_keeps_all_back(own: Service) -> None:
    client = own.as_("writer")
    begin(client)
    send(client, "sales.totals", pa.table({"region": ["x"], "amount": [1.0]}))
    send(client, "sales.orders", orders(7).set_column(2, "amount", pa.array([-1.0])))

    done = commit(client)

    assert done.status_code == 422, done.text
    assert done.json()["type"].endswith("ConstraintViolation")
    assert own.lake.table("sales.totals").version == 1
    # It can be rolled back, and its id is not that of a commit.
    assert client.delete(f"{PATH}/night-17").status_code == 200
    assert commit(client).status_code == 404


def test_versions_that_are_expected_must_be_there(own: Service) -> None:
    client = own.as_("writer")
    for number, expected in enumerate((1, 2)):
        name = f"attempt-{number}"
        begin(client, name)
        send(client, "sales.orders", orders(70 + number), name)
        answer = commit(client, name, expected={"sales.orders": expected})
        assert answer.status_code == (409 if expected == 1 else 200), answer.text
    assert own.lake.table("sales.orders").version == 3


def test_rollback_leaves_nothing(own: Service) -> None:
    client = own.as_("writer")
    begin(client)
    send(client, "sales.orders", orders(7))

    assert client.delete(f"{PATH}/night-17").status_code == 200

    assert commit(client).status_code == 404
    assert not any((Path(own.lake.warehouse) / "_pending").iterdir())
    assert own.lake.table("sales.orders").version == 2


def test_a_transaction_belongs_to_the_one_who_began_it(own: Service) -> None:
    client, other = own.as_("admin", name="anna"), own.as_("admin", name="bert")
    begin(client)
    send(client, "sales.orders", orders(7))

    assert send(other, "sales.orders", orders(8)).status_code == 404
    assert do(other, op="drop", table="sales.orders").status_code == 404
    assert commit(other).status_code == 404
    assert other.get(f"{PATH}/night-17/operations").status_code == 404
    assert other.delete(f"{PATH}/night-17").status_code == 404
    assert begin(other).status_code == 404
    commit(client)
    # Committed, it is the commit of the one who made it.
    assert commit(other).status_code == 404


def test_operations_need_the_role_for_their_tables_until_the_commit(own: Service) -> None:
    lake = own.lake
    token = lake.create_token("etl", role="writer", tables="sales.*")
    client = own.client(token.secret)
    begin(client)

    assert send(client, "gold.secret_plans", orders(7)).status_code == 404
    assert do(client, op="drop", table="sales.orders").status_code == 403
    assert do(client, op="create", table="gold.new", schema="id int64").status_code == 404
    key = "ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES gold.secret_plans (id)"
    assert do(client, op="alter", table="sales.orders", changes=[key]).status_code == 404
    assert send(client, "sales.orders", orders(7)).status_code == 200
    hidden = [commit(client, expected={f"gold.{n}": 7}) for n in ("secret_plans", "missing")]
    assert [a.status_code for a in hidden] == [404, 404], hidden[0].text
    # The same user with less, at the commit.
    lake.revoke_token(token.token_id)
    less = own.client(lake.create_token("etl", role="writer", tables="other.*").secret)
    assert commit(less).status_code == 404
    assert lake.table("sales.orders").version == 2


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "none", "table": "sales.orders"},
        {"op": "delete", "table": "sales.orders"},
        {"op": "update", "table": "sales.orders", "set": {}},
        {"op": "append", "table": "sales.orders", "data": "/etc/passwd", "format": "parquet"},
        {"op": "delete", "table": "sales.orders", "where": "1", "data": "x"},
        {"op": "delete", "table": "../x", "where": "true"},
        {},
    ],
    ids=str,
)
def test_operations_that_are_none_are_refused(own: Service, operation: dict[str, Any]) -> None:
    client = own.as_("admin")
    begin(client)

    assert do(client, **operation).status_code == 400
    assert client.get(f"{PATH}/night-17/operations").json()["operations"] == []


@pytest.mark.parametrize("value", ["1e400", "-1e400", "NaN", "Infinity", "1" * 30])
def test_values_that_the_store_cannot_keep_are_refused(own: Service, value: str) -> None:
    client = own.as_("admin")
    begin(client)

    body = f'{{"op": "update", "table": "sales.orders", "set": {{"id": {value}}}}}'
    answer = client.post(
        f"{PATH}/night-17/operations",
        content=body,
        headers={"Content-Type": "application/json"},
    )

    assert answer.status_code == 400, answer.text
    assert client.get(f"{PATH}/night-17/operations").json()["operations"] == []


@pytest.mark.parametrize("name", ["short", "../../etc", "x" * 200, "with space", ""])
def test_ids_that_are_none_are_refused(own: Service, name: str) -> None:
    assert begin(own.as_("writer"), name).status_code == 400


def test_rows_are_limited(own: Service, serve: Callable[..., Service]) -> None:
    size = len(stream(orders(7)))
    client = serve(own.lake, anonymous=None, max_pending=size).as_("writer")
    begin(client)

    codes = [send(client, "sales.orders", orders(7)).status_code for _ in range(2)]
    broken = client.post(
        f"{PATH}/night-17/rows?table=sales.orders",
        content=stream(orders(7))[:-9],
        headers={"content-type": ARROW},
    )

    assert codes == [200, 400]
    assert broken.status_code == 400


def test_an_operation_that_is_sent_twice_counts_once_against_the_limit(
    own: Service, serve: Callable[..., Service]
) -> None:
    size = len(stream(orders(7)))
    client = serve(own.lake, anonymous=None, max_pending=2 * size).as_("writer")
    begin(client)

    sent = [send(client, "sales.orders", orders(n), number=n) for n in (1, 2, 1, 2, 3)]

    assert [a.status_code for a in sent] == [200, 200, 200, 200, 400], sent[2].text
    assert sent[3].json()["bytes"] == 2 * size
    assert "may have" in sent[4].text


def test_a_committed_id_is_not_begun_again(own: Service) -> None:
    client = own.as_("writer")
    begin(client)
    send(client, "sales.orders", orders(7))
    commit(client)

    assert begin(client).status_code == 409


def test_what_is_not_committed_within_a_day_is_forgotten(
    own: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeward.lake import pending

    client = own.as_("writer")
    begin(client)
    send(client, "sales.orders", orders(7))
    monkeypatch.setattr(pending, "_KEPT_MS", -1)
    begin(client, "another-one")

    assert client.get(f"{PATH}/night-17/operations").status_code == 404
    assert not (Path(own.lake.warehouse) / "_pending" / "night-17").exists()


def test_the_next_process_takes_over(own: Service, serve: Callable[..., Service]) -> None:
    """Nothing of a transaction is in the memory of a process."""
    token = own.lake.create_token("etl", role="writer").secret
    begin(own.client(token))
    send(own.client(token), "sales.orders", orders(7))
    with lw.open(own.lake.warehouse) as other:
        assert commit(serve(other, anonymous=None).client(token)).status_code == 200
    assert own.lake.table("sales.orders").count() == 6
