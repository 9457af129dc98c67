"""Take tables that others made into the lake, where they lie."""

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

import lakeward as lw
from lakeward.errors import ForeignCommit

for day in (1, 2, 3):
    write_deltalake("./warehouse/events", pa.table({"day": [day]}), mode="append")
    write_deltalake("./warehouse/clicks", pa.table({"day": [day]}), mode="append")

lake = lw.open("./lake")

# region: guarded
events = lake.adopt("web.events", "./warehouse/events")
print(events.version, events.guarded, [v.adopted for v in events.history()])
print(events.at(version=0).to_arrow().to_pylist())

try:
    write_deltalake("./warehouse/events", pa.table({"day": [4]}), mode="append")
except DeltaError as error:
    print("deltalake refuses to write:", "lakewardManaged" in str(error))
print("deltalake goes on reading version", DeltaTable("./warehouse/events").version())
# endregion

# region: open
clicks = lake.adopt("web.clicks", "./warehouse/clicks", guard=False)
write_deltalake("./warehouse/clicks", pa.table({"day": [4]}), mode="append")
print(clicks.version, clicks.history(limit=1)[0].adopted)

with lake.transaction() as tx:
    tx.append("web.clicks", [{"day": 5}])
print(dict(tx.commit().versions), DeltaTable("./warehouse/clicks").version())
# endregion

# region: refuse
write_deltalake("./warehouse/views", pa.table({"day": [1]}))
views = lake.adopt("web.views", "./warehouse/views", guard=False, drift="refuse")
write_deltalake("./warehouse/views", pa.table({"day": [2]}), mode="append")
print(views.version, views.to_arrow().num_rows)
try:
    with lake.transaction() as tx:
        tx.append("web.views", [{"day": 3}])
except ForeignCommit as error:
    print(type(error).__name__, error.table, error.version)
# endregion
