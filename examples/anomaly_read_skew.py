"""Read skew: two tables, read before and after somebody moves money from one to the other."""

import lakeward as lw

lake = lw.open("./lake")


def attempt(level: str) -> str:
    ours, theirs = f"{level}.ours", f"{level}.theirs"
    for name in (ours, theirs):
        lake.create(name, {"balance": "int64"})
        lake.run(lambda tx, name=name: tx.append(name, [{"balance": 50}]))

    def move(tx: lw.Transaction) -> None:
        tx.overwrite(ours, [{"balance": 20}])
        tx.overwrite(theirs, [{"balance": 80}])

    # region: steps
    with lake.transaction(isolation=level) as tx:
        total = tx.read(ours)["balance"][0].as_py()
        lake.run(move)  # 30 from ours to theirs, in one transaction
        total += tx.read(theirs)["balance"][0].as_py()
    # endregion
    return f"the total is {total}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
