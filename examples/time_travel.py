"""Read the past, and see what changed."""

import datetime as dt

import lakeward as lw

lake = lw.open("./lake")
visits = lake.create("web.visits", {"day": "date", "hits": "int64"}, partition_by=["day"])
for day, hits in ((1, 10), (2, 20), (3, 30)):
    with lake.transaction(message=f"day {day}") as tx:
        tx.append("web.visits", [{"day": dt.date(2026, 11, day), "hits": hits}])
with lake.transaction(message="day 2 was wrong") as tx:
    tx.overwrite(
        "web.visits",
        [{"day": dt.date(2026, 11, 2), "hits": 25}],
        where="day = '2026-11-02'",
    )

# region: at
print(visits.version, visits.at(version=3).to_arrow().column("hits").to_pylist())

moment = visits.history(since=2, until=2)[0].timestamp
then = visits.at(timestamp=moment)
print(then.version, then.totals().rows, then.timestamp == moment)
# endregion

# region: history
for version in visits.history(limit=3):
    print(version.version, version.operation, version.parameters["mode"], version.message)
# endregion

# region: diff
change = visits.diff(3, 4)
print(change.rows_added, change.rows_removed, [f.rows for f in change.added_files])
print(change.before.rows, change.after.rows, change.schema_changes)
# endregion

# region: range
day_one = visits.versions(until=visits.history(since=1, until=1)[0].timestamp)
print([v.version for v in day_one])
# endregion
