"""DuckDB in a process and an environment of its own: SQL comes in, Arrow goes out.

Runs under the Python of `.venv-peers`. Each line of standard input is a JSON object with `sql` and
`target`; each line of standard output says `{}` once the rows are in the target file, or `error`.
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
        request = json.loads(line)
        try:
            rows = connection.execute(request["sql"]).to_arrow_table()
            with (
                pa.OSFile(request["target"], "wb") as sink,
                pa.ipc.new_file(sink, rows.schema) as out,
            ):
                out.write_table(rows)
            answer = {}
        except duckdb.Error as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
