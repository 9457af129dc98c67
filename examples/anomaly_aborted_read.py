"""G1a, aborted read: reading what is rolled back in the end."""

import lakeward as lw

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name = f"{level}.prices"
    lake.create(name, {"price": "int64"})
    lake.run(lambda tx: tx.append(name, [{"price": 10}]))
    # region: steps
    writer = lake.transaction(isolation=level)
    writer.overwrite(name, [{"price": 99}])
    with lake.transaction(isolation=level) as reader:
        seen = reader.read(name)["price"].to_pylist()
    writer.rollback()
    # endregion
    return f"saw {seen} while 99 was written and rolled back"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
