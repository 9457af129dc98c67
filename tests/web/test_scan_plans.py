"""Scans that the service plans for clients of the Iceberg REST catalog, from the log."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

from lakeward.model.roles import Role
from tests.support.delete_files import delete_in_place
from tests.support.service import Service

_FILES = 5
_MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def _row(n: int) -> dict[str, Any]:
    """A row of file n // 10, whose columns grow with the file."""
    return {
        "id": n,
        "part": f"p{n // 20}",
        "text": f"{chr(97 + n // 10)}'\\{n}",
        "day": date(2026, 1, 1) + timedelta(days=n),
        "at": _MOMENT + timedelta(microseconds=n),
        "price": Decimal(n) / 100,
        "single": n / 10,
        "maybe": None if n // 10 == 2 else n,
    }


@pytest.fixture(scope="module")
def planned(shared: Service) -> str:
    """A table of five files of ten rows, in three partitions."""
    schema = (
        "id int64, part string, text string, day date, at timestamp, price decimal(9,2),"
        " single float, maybe int64"
    )
    table = shared.lake.create("sales.plans", schema, format="iceberg", partition_by=["part"])
    for file in range(_FILES):
        table.append([_row(n) for n in range(10 * file, 10 * file + 10)])
    return table.name


def _table(service: Service, name: str, mode: str) -> Table:
    secret = service.lake.create_token().secret
    options = {"uri": f"{service.url}/iceberg", "token": secret, "scan-planning-mode": mode}
    return RestCatalog("lake", **options).load_table(name)


CASES = [
    ("id = 17", 1),
    ("id = 1000", 0),
    ("id > 8 and id < 11", 2),
    ("id = 3 or id = 43", 2),
    ("id in (3, 33)", 2),
    ("part = 'p1'", 2),
    ("text = 'b''\\17'", 1),
    ("text like 'c''%'", 1),
    ("day >= '2026-02-10'", 1),
    ("at = '2026-01-01T00:00:00.000017+00:00'", 1),
    ("price < '0.10'", 1),
    ("maybe is null", 1),
    ("maybe is not null", 4),
    ("part = 'p0' and id != 3", 2),
    # These match nulls by Iceberg, so they leave no file out.
    ("maybe != 17", _FILES),
    ("maybe not in (1, 2)", _FILES),
    ("not id = 17", _FILES),
    ("id = 3 or maybe != 1", _FILES),
]


@pytest.mark.parametrize(("condition", "files"), CASES)
def test_a_plan_has_the_files_that_a_client_would_plan(
    shared: Service, planned: str, condition: str, files: int
) -> None:
    served, own = (_table(shared, planned, mode) for mode in ("server", "client"))
    plan = list(served.scan(row_filter=condition).plan_files())

    assert len(plan) == files
    theirs = {task.file.file_path: task.file for task in own.scan().plan_files()}
    for task in plan:
        known = theirs[task.file.file_path]
        assert task.file.record_count == known.record_count
        assert task.file.file_size_in_bytes == known.file_size_in_bytes
        assert task.file.spec_id == known.spec_id
        assert task.file.partition == known.partition
        assert task.delete_files == set()
    rows = [s.scan(row_filter=condition).to_arrow().sort_by("id") for s in (served, own)]
    assert rows[0] == rows[1]


def test_a_number_is_compared_in_the_type_of_its_column(shared: Service, planned: str) -> None:
    """0.9 is more than the greatest 32-bit number of the first file, which is the nearest to it."""
    body = {"filter": {"type": "eq", "term": "single", "value": 0.9}}
    place = f"/iceberg/v1/namespaces/sales/tables/{planned.removeprefix('sales.')}/plan"
    found = shared.as_("reader").post(place, json=body).json()
    assert len(found["file-scan-tasks"]) == 1


def test_older_snapshots_are_planned_by_their_ids(shared: Service, planned: str) -> None:
    own = shared.lake.table(planned)
    served = _table(shared, planned, "server")

    for version in range(1, _FILES + 1):
        snapshot = own.at(version=version).snapshot_id
        scan = served.scan(snapshot_id=snapshot, row_filter="id < 25")
        assert len(list(scan.plan_files())) == min(version, 3)
    assert list(served.scan().plan_files()) != []


def test_what_the_log_cannot_answer_is_refused(shared: Service, planned: str) -> None:
    lake = shared.lake
    lake.create("sales.empty", "id int64", format="iceberg")
    lake.create("sales.rows", "id int64", format="iceberg", properties={"format-version": "3"})
    lake.table("sales.rows").append({"id": [1]})
    reader = shared.as_("reader")

    def asked(name: str, **body: Any) -> Any:
        return reader.post(f"/iceberg/v1/namespaces/sales/tables/{name}/plan", json=body)

    empty = asked("empty").json()
    assert (empty["status"], empty["file-scan-tasks"]) == ("completed", [])
    for answer in (
        asked("rows"),
        asked("plans", **{"start-snapshot-id": 1, "end-snapshot-id": 2}),
    ):
        assert answer.status_code == 406
        assert answer.json()["error"]["type"] == "UnsupportedOperationException"
    for body in (
        {"snapshot-id": 1},
        {"snapshot-id": "1"},
        {"filter": 7},
        {"filter": {"left": 1}},
        {"case-sensitive": "no"},
    ):
        assert asked("plans", **body).status_code == 400, body
    assert asked("orders").status_code == 404  # a Delta table
    assert asked("none").status_code == 404
    strange = {"type": "eq", "term": {"type": "transform", "transform": "day", "term": "at"}}
    found = asked("plans", filter={**strange, "value": 1}).json()
    assert len(found["file-scan-tasks"]) == _FILES
    assert found["file-scan-tasks"][0]["residual-filter"]["term"] == strange["term"]


def test_files_with_deleted_rows_are_left_to_the_client(own: Service) -> None:
    table = own.lake.create("sales.marked", "id int64", format="iceberg")
    table.append({"id": [1, 2, 3]})
    table.append({"id": [10, 20, 30]})
    (file,) = table.files(where="id = 2")
    secret = own.lake.create_token(role=Role.WRITER).secret
    catalog = RestCatalog("lake", uri=f"{own.url}/iceberg", token=secret)
    delete_in_place(catalog.load_table(table.name), {f"{table.location}/{file.path}": [1]})
    assert table.count() == 5

    served = _table(own, table.name, "server")
    assert served.scan(row_filter="id = 20").to_arrow()["id"].to_pylist() == [20]
    with pytest.raises(Exception, match="files with deleted rows"):
        served.scan().to_arrow()
