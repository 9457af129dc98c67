"""A service that writes a stream, dies and replays; and one that comes back too late."""

import asyncio

import lakeward as lw
from lakeward.errors import EpochOutOfOrder, Fenced, SchemaMismatch

lake = lw.open("./lake")

# region: epochs
with lake.sink("shop.events", writer_id="web-1", schema={"id": "int64", "what": "string"}) as sink:
    for epoch in range(3):
        sink.write([{"id": epoch, "what": "seen"}, {"id": epoch, "what": "sold"}])
        result = sink.commit_epoch(epoch)
        print(result.epoch, result.versions, "replayed" if result.replayed else "new")
# endregion

# region: replay
with lake.sink("shop.events", writer_id="web-1") as sink:
    print("last:", sink.last_epoch)
    for epoch in range(1, 4):  # the service is not sure how far it came
        sink.write([{"id": epoch, "what": "seen"}, {"id": epoch, "what": "sold"}])
        print(epoch, "replayed" if sink.commit_epoch(epoch).replayed else "new")
print(lake.table("shop.events").totals().rows, "rows")
# endregion

# region: fence
old = lake.sink("shop.events", writer_id="web-1")
old.write([{"id": 4, "what": "late"}])
new = lake.sink("shop.events", writer_id="web-1")  # the same service, started again elsewhere
try:
    old.commit_epoch(4)
except Fenced as error:
    print("fenced off, generation", error.generation, "of", error.newer_generation)
# endregion

# region: refused
try:
    new.write([{"id": 4, "why": "typo"}])
except SchemaMismatch as error:
    print(error.what)
new.write([{"id": 4, "what": "seen"}])
try:
    new.commit_epoch(6)
except EpochOutOfOrder as error:
    print(error.what)
    new.commit_epoch(error.expected, progress={"offset": 17})
print(new.progress)
new.close()
# endregion

# region: submit
with lake.sink("shop.clicks", writer_id="web-1", schema={"id": "int64"}) as clicks:
    submitted = []
    for epoch in range(5):
        clicks.write([{"id": n} for n in range(100)])
        submitted.append(clicks.submit_epoch(epoch))
    print([s.result().versions["shop.clicks"] for s in submitted])
# endregion

# region: upsert
with lake.sink(
    "shop.stock",
    writer_id="stock",
    mode="upsert",
    key="sku",
    schema={"sku": "string", "count": "int64"},
    format="iceberg",
) as stock:
    stock.write([{"sku": "tea", "count": 5}, {"sku": "jam", "count": 2}])
    stock.commit_epoch(1)
    stock.write(
        [
            {"sku": "tea", "count": 3, "_change_type": "update"},
            {"sku": "jam", "_change_type": "delete"},
            {"sku": "rye", "count": 8, "_change_type": "insert"},
        ]
    )
    stock.commit_epoch(2)
print(sorted(lake.table("shop.stock").to_arrow().to_pylist(), key=lambda r: r["sku"]))
# endregion

# region: group
orders = lake.sink("shop.orders", writer_id="shop", schema={"id": "int64"})
lines = lake.sink("shop.lines", writer_id="shop", schema={"id": "int64"}, format="iceberg")
with lake.sinks([orders, lines]) as group:
    orders.write([{"id": 1}])
    lines.write([{"id": 1}, {"id": 1}])
    print(group.commit_epoch(1).versions)
# endregion


# region: aio
async def serve() -> None:
    async with lake.sink("shop.events", writer_id="web-2").aio() as sink:
        await asyncio.gather(*(sink.write([{"id": n, "what": "asked"}]) for n in range(10)))
        print((await sink.commit_epoch(1)).rows, "rows")


asyncio.run(serve())
# endregion
