"""A key belongs to one request of one caller: it acknowledges no other request."""

from __future__ import annotations

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.formats.delta.format import DeltaFormat
from lakeward.model import steps
from tests.support import processes
from tests.support.rest import catalog_of, requested, staged, totals
from tests.support.service import ARROW, Service, stream

V1 = "/iceberg/v1"
TOTALS = f"{V1}/namespaces/sales/tables/totals"
COMMIT = f"{V1}/transactions/commit"
ROWS = "/api/v1/tables/sales.totals/rows"


def post(client: httpx.Client, path: str, key: str, body: Any) -> httpx.Response:
    return client.post(path, json=body, headers={"idempotency-key": key})


def append(client: httpx.Client, path: str, key: str, rows: pa.Table) -> httpx.Response:
    headers = {"content-type": ARROW, "idempotency-key": key}
    return client.post(path, content=stream(rows), headers=headers)


def change(service: Service, *amounts: float, name: str = "totals") -> dict[str, Any]:
    """A commit that appends amounts to the newest snapshot of a table."""
    return staged(catalog_of(service, "writer").load_table(f"sales.{name}"), totals(*amounts))


def amounts(service: Service, name: str = "totals") -> list[float]:
    return sorted(service.lake.table(f"sales.{name}").to_arrow()["amount"].to_pylist())


def test_a_commit_of_another_caller_with_the_same_key_is_refused(own: Service) -> None:
    one, two = own.as_("writer", name="one"), own.as_("writer", name="two")
    body = change(own, 1.0)

    assert post(one, TOTALS, "key-of-one", body).status_code == 200
    same = post(two, TOTALS, "key-of-one", body)
    other = post(two, TOTALS, "key-of-one", change(own, 2.0))

    assert same.status_code == other.status_code == 400, other.text
    assert "another change" in other.text
    assert post(one, TOTALS, "key-of-one", body).status_code == 200
    assert amounts(own) == [1.0, 6.0]


def test_another_commit_with_the_same_key_is_refused(own: Service) -> None:
    client = own.as_("writer")
    body = change(own, 1.0)

    first = post(client, TOTALS, "one-commit", body)
    other = post(client, TOTALS, "one-commit", change(own, 2.0))
    again = post(client, TOTALS, "one-commit", body)

    assert [first.status_code, other.status_code, again.status_code] == [200, 400, 200], other.text
    assert amounts(own) == [1.0, 6.0]


def test_a_key_that_was_used_for_fewer_tables_acknowledges_nothing(own: Service) -> None:
    own.lake.create("sales.more", "region string, amount float64", format="iceberg")
    client, one = own.as_("writer"), change(own, 1.0)
    both = [one, change(own, 2.0, name="more")]

    assert post(client, COMMIT, "fewer-tables", {"table-changes": [one]}).status_code == 204
    other = post(client, COMMIT, "fewer-tables", {"table-changes": both})

    assert other.status_code == 400, other.text
    assert own.lake.table("sales.more").version == 0
    assert amounts(own) == [1.0, 6.0]


def test_a_key_of_an_append_acknowledges_no_commit_and_no_other_append(own: Service) -> None:
    client, rows = own.as_("writer"), totals(1.0)
    first = append(client, ROWS, "append-key", rows)

    commit = post(client, TOTALS, "append-key", change(own, 2.0))
    other = append(client, ROWS, "append-key", totals(3.0))
    again = append(client, ROWS, "append-key", rows)

    assert first.status_code == again.status_code == 200, again.text
    assert first.json()["versions"] == again.json()["versions"]
    assert commit.status_code == other.status_code == 400, (commit.text, other.text)
    assert amounts(own) == [1.0, 6.0]


def test_a_key_of_a_commit_acknowledges_no_append(own: Service) -> None:
    client = own.as_("writer")
    assert post(client, TOTALS, "commit-key", change(own, 1.0)).status_code == 200

    other = append(client, ROWS, "commit-key", totals(2.0))

    assert other.status_code == 400, other.text
    assert amounts(own) == [1.0, 6.0]


def test_an_id_of_a_transaction_acknowledges_no_commit_and_no_append(own: Service) -> None:
    client = own.as_("writer", name="one")
    with own.lake.acting_as("one").transaction(transaction_id="own-transaction") as tx:
        tx.append("sales.totals", totals(1.0))

    commit = post(client, TOTALS, "own-transaction", change(own, 2.0))
    other = append(client, ROWS, "own-transaction", totals(3.0))

    assert commit.status_code == other.status_code == 400, (commit.text, other.text)
    assert amounts(own) == [1.0, 6.0]


@pytest.mark.parametrize("kind", ["commit", "append"])
def test_a_key_of_another_request_acknowledges_no_transaction_of_several_requests(
    own: Service, kind: str
) -> None:
    client, path = own.as_("writer"), "/api/v1/transactions"
    assert client.post(path, json={"id": "same-id-as-key"}).status_code == 201
    deletion = {"op": "delete", "table": "sales.totals", "where": "amount = 6"}
    added = client.post(f"{path}/same-id-as-key/operations", json=deletion)
    assert added.status_code == 200, added.text
    if kind == "commit":
        assert post(client, TOTALS, "same-id-as-key", change(own, 1.0)).status_code == 200
    else:
        assert append(client, ROWS, "same-id-as-key", totals(1.0)).status_code == 200

    done = client.post(f"{path}/same-id-as-key/commit", json={})

    assert done.status_code == 400, done.text
    assert amounts(own) == [1.0, 6.0]


def test_a_key_belongs_to_one_change_of_a_definition(own: Service) -> None:
    client = own.as_("writer")

    def property_set(value: str) -> dict[str, Any]:
        table = catalog_of(own, "writer").load_table("sales.totals")
        return requested(table, lambda tx: tx.set_properties({"owner": value}))

    def tagged(name: str) -> dict[str, Any]:
        """A commit that makes no version of the lake."""
        table = catalog_of(own, "writer").load_table("sales.totals")
        snapshot = table.current_snapshot().snapshot_id
        update = {"action": "set-snapshot-ref", "ref-name": name, "type": "tag"}
        kept = {"updates": [{**update, "snapshot-id": snapshot}], "requirements": []}
        return {"identifier": {"namespace": ["sales"], "name": "totals"}, **kept}

    for make, key in ((property_set, "definition"), (tagged, "no-version")):
        body = make("a")
        codes = [post(client, TOTALS, key, one).status_code for one in (body, make("b"), body)]
        assert codes == [200, 400, 200], key

    assert own.lake.table("sales.totals").properties["owner"] == "a"
    assert "b" not in catalog_of(own).load_table("sales.totals").refs()


def test_a_key_belongs_to_one_creation_and_one_set_of_properties(own: Service) -> None:
    one, two = own.as_("admin", name="one"), own.as_("admin", name="two")

    def table(column: str) -> dict[str, Any]:
        field = {"id": 1, "name": column, "type": "long", "required": False}
        return {"name": "made", "schema": {"type": "struct", "fields": [field]}}

    def properties(value: str) -> dict[str, Any]:
        return {"updates": {"owner": value}}

    for path, make in (("tables", table), ("properties", properties)):
        where, key = f"{V1}/namespaces/sales/{path}", f"key-{path}"
        asked = ((one, "a"), (one, "b"), (two, "a"), (one, "a"))
        codes = [post(by, where, key, make(value)).status_code for by, value in asked]
        assert codes == [200, 400, 400, 200], path

    assert own.lake.table("sales.made").schema.names == ["a"]
    assert one.get(f"{V1}/namespaces/sales").json()["properties"] == {"owner": "a"}


def test_a_table_is_registered_once_with_a_key(own: Service, tmp_path: Path) -> None:
    other = SqlCatalog("o", uri=f"sqlite:///{tmp_path}/o.db", warehouse=f"file://{tmp_path}/o")
    other.create_namespace("x")
    made = [other.create_table(f"x.{name}", totals(1.0).schema) for name in ("a", "b")]
    made[0].append(totals(1.0))
    one, two = own.as_("admin", name="one"), own.as_("admin", name="two")

    def register(by: httpx.Client, number: int) -> int:
        body = {"name": "taken", "metadata-location": made[number].metadata_location}
        return post(by, f"{V1}/namespaces/sales/register", "register-key", body).status_code

    assert [register(one, 0), register(one, 0)] == [200, 200]
    assert [register(one, 1), register(two, 0)] == [400, 400]
    assert amounts(own, "taken") == [1.0]


def test_an_append_without_rows_is_repeated_with_its_key(own: Service) -> None:
    client = own.as_("writer")

    answers = [append(client, ROWS, "no-rows-at-all", totals()) for _ in range(2)]

    assert [a.status_code for a in answers] == [200, 200], answers[0].text
    assert append(client, ROWS, "no-rows-at-all", totals(1.0)).status_code == 400
    assert amounts(own) == [6.0]


@pytest.mark.parametrize("kind", ["commit", "append"])
def test_two_requests_with_one_key_at_the_same_time_are_not_both_acknowledged(
    own: Service, kind: str
) -> None:
    """The second one comes while the rows of the first are checked."""
    client, other = own.as_("writer", name="one"), own.client(own.lake.create_token("one").secret)
    bodies = change(own, 1.0), change(own, 2.0)
    between: list[httpx.Response] = []

    def send(by: httpx.Client, number: int) -> httpx.Response:
        if kind == "commit":
            return post(by, TOTALS, "sent-at-once", bodies[number])
        return append(by, ROWS, "sent-at-once", totals(1.0 + number))

    def second(step: str) -> None:
        if step == "validate.done" and not between:
            steps.observe(None)
            between.append(send(other, 1))

    steps.observe(second)
    try:
        first = send(client, 0)
    finally:
        steps.observe(None)

    codes = [first.status_code, between[0].status_code]
    assert sorted(codes)[0] == 200, (first.text, between[0].text)
    assert 400 <= sorted(codes)[1] < 500, (first.text, between[0].text)
    kept = 1.0 if codes[0] == 200 else 2.0
    assert amounts(own) == [kept, 6.0]


@pytest.mark.parametrize("guard", [True, False])
def test_an_append_is_acknowledged_again_after_a_restart(tmp_path: Path, guard: bool) -> None:
    with lw.open(tmp_path, actor="one") as lake:
        lake.create("plain", "id int64", guard=guard)
        done = lake.append_once("plain", ids(7), key="over-restart", digest="a")

    with lw.open(tmp_path, actor="one") as lake:
        again = lake.append_once("plain", ids(7), key="over-restart", digest="a")
        with pytest.raises(InvalidInput, match="another change"):
            lake.append_once("plain", ids(8), key="over-restart", digest="b")

        assert done.versions == again.versions == {"plain": 1}
        assert lake.table("plain").count() == 1


def test_a_key_of_a_dropped_table_is_refused_for_a_new_one_of_its_name(tmp_path: Path) -> None:
    with lw.open(tmp_path, actor="one") as lake:
        lake.create("plain", "id int64")
        lake.append_once("plain", ids(7), key="before-the-drop", digest="a")
        lake.drop("plain")
        lake.create("plain", "id int64")

        with pytest.raises(InvalidInput, match="another change"):
            lake.append_once("plain", ids(7), key="before-the-drop", digest="a")


def test_an_append_that_the_log_learns_of_by_its_file_is_acknowledged(tmp_path: Path) -> None:
    """The file of a table that is not guarded is put before the log has the commit."""
    with lw.open(tmp_path, actor="one") as lake:
        lake.create("plain", "id int64", guard=False)
    worker = processes.start(append_until_killed, str(tmp_path))
    worker.finish()
    assert worker.killed

    with lw.open(tmp_path, actor="one") as lake:
        done = lake.append_once("plain", ids(7), key="put-and-killed", digest="a")

        assert done.versions == {"plain": 1}
        assert lake.table("plain").count() == 1
        with pytest.raises(InvalidInput, match="another"):
            lake.acting_as("two").append_once("plain", ids(7), key="put-and-killed", digest="a")


def append_until_killed(pipe: Connection, directory: str) -> None:
    """Append, and end by SIGKILL when the file of the commit is put."""
    put = DeltaFormat.put_commit

    def put_and_end(*given: Any) -> bool:
        put(*given)
        os.kill(os.getpid(), signal.SIGKILL)
        return True

    setattr(DeltaFormat, "put_commit", put_and_end)  # noqa: B010  mypy refuses an assignment
    with lw.open(directory, actor="one") as lake:
        lake.append_once("plain", ids(7), key="put-and-killed", digest="a")


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": list(numbers)})
