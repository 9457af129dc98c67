"""Non-repeatable read: the same rows, read twice in one transaction."""

import lakeward as lw

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name = f"{level}.prices"
    lake.create(name, {"price": "int64"})
    lake.run(lambda tx: tx.append(name, [{"price": 10}]))
    # region: steps
    with lake.transaction(isolation=level) as tx:
        before = tx.read(name)["price"].to_pylist()
        lake.run(lambda other: other.overwrite(name, [{"price": 99}]))
        after = tx.read(name)["price"].to_pylist()
    # endregion
    return f"saw {before}, then {after}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
