"""Values of parameters over HTTP have their types, and mean themselves whatever is in them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput
from lakeward.model.parameter_values import of_texts, to_texts
from tests.support.service import Service

VALUES: list[tuple[str, Any]] = [
    ("s", "x' OR '1'='1"),
    ("s", "back\\slash\\"),
    ("s", "=a:int=1"),
    ("n", Decimal("-1.50")),
    ("day", date(2026, 1, 31)),
    ("ts", datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)),
    ("b", b"\x00'\xff"),
    ("t", False),
    ("d", 0.1),
    ("i", 2**63 - 1),
]
SCHEMA = (
    "id int64, s string, n decimal(9,2), day date, ts timestamp, b binary, t boolean, d double,"
    " i int64"
)


def _fill(service: Service) -> None:
    empty = dict.fromkeys(name for name, _ in VALUES)
    rows = [{**empty, "id": n, name: value} for n, (name, value) in enumerate(VALUES)]
    service.lake.create("t", SCHEMA).append(rows)


def test_values_find_their_rows_in_every_route(own: Service) -> None:
    _fill(own)
    client, path = own.as_("reader"), "/api/v1/tables/t"
    remote = lw.connect(own.url, token=own.lake.create_token().secret).table("t")

    for number, (name, value) in enumerate(VALUES):
        where, params = f"{name} = :v", {"v": value}
        given = {"where": where, "param": to_texts(params)}
        rows = client.get(f"{path}/rows", params=given).json()["rows"]
        changed = client.get(f"{path}/changes", params={**given, "since": "1"}).json()["rows"]
        assert [row["id"] for row in rows] == [number], name
        assert [row["id"] for row in changed] == [number], name
        assert remote.to_arrow(where=where, params=params)["id"].to_pylist() == [number], name
    assert remote.count("s = :v", params={"v": None}) == 0
    assert remote.count("id IN (:v)", params={"v": [1, 2, None]}) == 2
    assert len(remote.files(where="id = :v", params={"v": 1})) == 1
    assert remote.files(where="id = :v", params={"v": 99}) == []


def test_a_query_takes_values_that_json_lacks(own: Service) -> None:
    _fill(own)
    sent = {
        "day": {"type": "date", "value": "2026-01-31"},
        "ts": {"type": "timestamp", "value": "2026-01-31T12:00:00.000005+00:00"},
        "s": ["x' OR '1'='1", "back\\slash\\", None],
    }
    query = "SELECT id FROM t WHERE day = :day OR ts = :ts OR s IN (:s) ORDER BY id"
    client = own.as_("reader")

    found = client.post("/api/v1/sql", json={"query": query, "params": sent})
    bad = {"query": query, "params": {**sent, "day": {"type": "date", "value": "x' OR 1"}}}

    assert [row["id"] for row in found.json()["rows"]] == [0, 1, 4, 5]
    assert client.post("/api/v1/sql", json=bad).status_code == 400


@pytest.mark.parametrize("param", ["v", "v:int=1 OR true", "v:none=1", "w=1"])
def test_a_malformed_value_is_a_wrong_request(shared: Service, param: str) -> None:
    client = shared.as_("reader")
    given = {"where": "id = :v", "param": param}
    for route in ("rows", "files"):
        answer = client.get(f"/api/v1/tables/sales.orders/{route}", params=given)
        assert answer.status_code == 400
        assert answer.json()["type"].endswith("InvalidInput"), answer.text


def test_values_are_the_same_after_they_were_written_and_read() -> None:
    values: dict[str, Any] = {f"v{n}": value for n, (_, value) in enumerate(VALUES)}
    values["naive"] = datetime.fromisoformat("2026-01-31T12:00:00")
    values |= {"none": None, "many": [1, "x", None], "big": 10**30}
    assert of_texts(to_texts(values)) == values
    assert of_texts([]) is None
    with pytest.raises(InvalidInput, match="have names"):
        to_texts([1])
