"""G1b, intermediate read: reading a value that its writer replaces before it commits."""

import lakeward as lw

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name = f"{level}.prices"
    lake.create(name, {"price": "int64"})
    lake.run(lambda tx: tx.append(name, [{"price": 10}]))
    # region: steps
    seen = []
    with lake.transaction(isolation=level) as writer:
        for price in (11, 12):
            writer.overwrite(name, [{"price": price}])
            with lake.transaction(isolation=level) as reader:
                seen += reader.read(name)["price"].to_pylist()
    with lake.transaction(isolation=level) as reader:
        seen += reader.read(name)["price"].to_pylist()
    # endregion
    return f"saw {seen}; the writer wrote 11, then 12, and committed"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
