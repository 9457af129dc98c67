"""Rows changed without Spark: an update, a merge by key, and one with conditions."""

import lakeward as lw
from lakeward.errors import ConstraintViolation

lake = lw.open("./lake")
lake.create("shop.stock", {"id": "int64", "name": "string", "n": "int64"})
with lake.transaction() as tx:
    tx.append("shop.stock", [{"id": i, "name": f"item {i}", "n": i * 10} for i in range(1, 6)])

# region: update
with lake.transaction() as tx:
    done = tx.update("shop.stock", set={"n": "n + 1"}, where="id <= 2")
print(done.updated, "rows updated in", done.files_touched, "file")
# endregion

# region: upsert
with lake.transaction() as tx:
    done = tx.merge(
        "shop.stock",
        [{"id": 2, "name": "item 2", "n": 99}, {"id": 9, "name": "item 9", "n": 90}],
        on="id",
    )
print(done.updated, "updated,", done.inserted, "inserted")
# endregion

# region: clauses
deliveries = [
    {"id": 1, "kind": "arrived", "count": 5},
    {"id": 3, "kind": "ended", "count": 0},
    {"id": 7, "kind": "arrived", "count": 7},
    {"id": 8, "kind": "ended", "count": 0},
]
with lake.transaction() as tx:
    done = tx.merge(
        "shop.stock",
        deliveries,
        on="id",
        matched=[
            lw.When("source.kind = 'ended'", "delete"),
            {"n": "target.n + source.count"},
        ],
        not_matched=lw.When(
            "kind = 'arrived'",
            {"id": "source.id", "name": "concat('new ', CAST(source.id AS STRING))", "n": "count"},
        ),
        not_matched_by_source=lw.When("target.n >= 90", {"name": "concat(name, ' (many)')"}),
    )
print(done)
for row in sorted(lake.table("shop.stock").to_arrow().to_pylist(), key=lambda row: row["id"]):
    print(row["id"], row["name"], row["n"])
# endregion

# region: twice
try:
    with lake.transaction() as tx:
        tx.merge("shop.stock", [{"id": 1, "n": 0}, {"id": 1, "n": 1}], on="id")
except ConstraintViolation as error:
    print(error.what)
# endregion
