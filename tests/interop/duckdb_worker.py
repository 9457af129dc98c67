"""DuckDB in a process and an environment of its own: SQL comes in, Arrow goes out.

Runs under the Python of `.venv-peers`. Each line of standard input is a JSON object: with `sql` and
`target`, whose rows go to the target file, or with `load`, a file whose rows become the table
`whole`. Each line of standard output says `{}` once that is done, or what the `error` was.
"""

from __future__ import annotations

import json
import sys

import duckdb
import pyarrow as pa
from duckdb_extensions import import_extension


def main(extensions: str) -> None:
    connection = duckdb.connect(config={"extension_directory": extensions})
    import_extension("delta", con=connection)
    connection.execute("LOAD delta")
    connection.execute("SET TimeZone = 'UTC'")
    for line in sys.stdin:
        answer = {}
        try:
            _serve(connection, json.loads(line))
        except duckdb.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


def _load_iceberg(connection: duckdb.DuckDBPyConnection) -> None:
    for name in ("avro", "iceberg"):
        import_extension(name, con=connection)
        connection.execute(f"LOAD {name}")


def _serve(connection: duckdb.DuckDBPyConnection, request: dict[str, str]) -> None:
    if "load" in request:
        with pa.OSFile(request["load"]) as source:
            given = pa.ipc.open_stream(source).read_all()
        connection.register("given", given)
        connection.execute("CREATE OR REPLACE TEMP TABLE whole AS SELECT * FROM given")
        return
    if "iceberg_scan" in request["sql"]:
        _load_iceberg(connection)
    rows = connection.execute(request["sql"]).to_arrow_table()
    with pa.OSFile(request["target"], "wb") as sink, pa.ipc.new_file(sink, rows.schema) as out:
        out.write_table(rows)


if __name__ == "__main__":
    main(sys.argv[1])
