"""DuckDB and Spark through the Iceberg REST catalog: create, write, read, evolve, drop."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from tests.interop.readers import PEERS_PYTHON
from tests.support.rest import catalog_of
from tests.support.service import Service

DUCKDB = """
import json, sys
import duckdb
from duckdb_extensions import import_extension

asked = json.load(sys.stdin)
connection = duckdb.connect(config={"extension_directory": asked["extensions"]})
# On a busy machine it would print one among the answers.
connection.execute("SET enable_progress_bar = false")
for name in ("avro", "httpfs", "iceberg"):
    import_extension(name, con=connection)
    connection.execute(f"LOAD {name}")
connection.execute(f"CREATE SECRET s (TYPE iceberg, TOKEN '{asked['token']}')")
connection.execute(f"ATTACH '' AS lake (TYPE iceberg, ENDPOINT '{asked['uri']}', SECRET s)")
print(json.dumps([connection.execute(sql).fetchall() for sql in asked["statements"]]))
"""


@pytest.mark.peers
def test_duckdb_creates_writes_reads_evolves_and_drops(own: Service, tmp_path: Any) -> None:
    answers = by_duckdb(
        own,
        tmp_path,
        "CREATE SCHEMA lake.duck",
        "CREATE TABLE lake.duck.t (id BIGINT, name VARCHAR)",
        "INSERT INTO lake.duck.t VALUES (1, 'a'), (2, 'b')",
        "BEGIN",
        "INSERT INTO lake.duck.t VALUES (3, 'c')",
        "INSERT INTO lake.sales.totals VALUES ('x', 1.0)",
        "COMMIT",
        "ALTER TABLE lake.duck.t ADD COLUMN note VARCHAR",
        # Deleted rows are marked by delete files, which the lake keeps as they are.
        "UPDATE lake.duck.t SET name = 'z' WHERE id = 1",
        "DELETE FROM lake.duck.t WHERE id = 2",
        "SELECT id, name, note FROM lake.duck.t ORDER BY id",
    )

    table = own.lake.table("duck.t")
    assert answers[-1] == [[1, "z", None], [3, "c", None]]
    rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(r["id"], r["name"], r["note"]) for r in rows] == [(1, "z", None), (3, "c", None)]
    seen = catalog_of(own).load_table("duck.t").scan().to_arrow().to_pylist()
    assert sorted(seen, key=lambda row: row["id"]) == rows
    # The two inserts of its transaction are one of the lake.
    ids = {v.transaction_id for v in own.lake.table("sales.totals").history(limit=1)}
    assert ids < {v.transaction_id for v in table.history()}
    assert {v.actor for v in table.history()} == {"duckdb"}
    assert own.lake.doctor().healthy
    by_duckdb(own, tmp_path, "DROP TABLE lake.duck.t")
    assert [t.name for t in own.lake.tables() if t.name == "duck.t"] == []


def by_duckdb(service: Service, directory: Any, *statements: str) -> list[Any]:
    """What DuckDB answers to statements, in a process of its own under `.venv-peers`."""
    if not PEERS_PYTHON.exists():
        pytest.skip("there is no .venv-peers; `make peers` makes it")
    token = service.lake.create_token("duckdb", role="admin").secret
    asked = {
        "uri": f"{service.url}/iceberg",
        "token": token,
        "extensions": str(directory),
        "statements": statements,
    }
    command = [str(PEERS_PYTHON), "-c", DUCKDB]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Any] = json.loads(done.stdout)
    return found
