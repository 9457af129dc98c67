"""Tables partitioned by transforms of their columns, in both formats."""

import datetime as dt

import lakeward as lw

lake = lw.open("./lake")
COLUMNS = {"id": "int64", "at": "timestamp", "user": "string"}

# region: create
for kind in ("delta", "iceberg"):
    visits = lake.create(
        f"web.visits_{kind}",
        COLUMNS,
        format=kind,
        partition_by=["day(at)", "bucket(16, user)"],
    )
    print(visits.schema.names, visits.partition_by)
# endregion

# region: append
monday = dt.datetime(2026, 11, 16, 9, 30, tzinfo=dt.UTC)
rows = [
    {"id": n, "at": monday + dt.timedelta(hours=8 * n), "user": user}
    for n, user in enumerate(["ann", "bob", "ann", "eve", "bob", "ann"])
]
with lake.transaction() as tx:
    for kind in ("delta", "iceberg"):
        tx.append(f"web.visits_{kind}", rows)
# endregion

# region: prune
for kind in ("delta", "iceberg"):
    visits = lake.table(f"web.visits_{kind}")
    print(
        len(visits.files()),
        len(visits.files(where="at < '2026-11-17'")),
        len(visits.files(where="CAST(at AS DATE) = '2026-11-17' AND user = 'eve'")),
    )
# endregion

# region: directories
for kind in ("delta", "iceberg"):
    (file,) = lake.table(f"web.visits_{kind}").files(where="id = 0")
    print(file.path.rpartition("/")[0])
# endregion
