"""Phantom: rows that appear where a transaction has already looked."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name, report = f"{level}.orders", f"{level}.report"
    lake.create(name, {"amount": "int64"})
    lake.create(report, {"large": "int64"})
    lake.run(lambda tx: tx.append(name, [{"amount": 10}, {"amount": 500}]))
    # region: steps
    tx = lake.transaction(isolation=level)
    before = tx.read(name, where="amount > 100").num_rows
    lake.run(lambda other: other.append(name, [{"amount": 700}]))
    after = tx.read(name, where="amount > 100").num_rows
    tx.append(report, [{"large": after}])
    try:
        tx.commit()
        end = f"reported {after}"
    except Conflict:
        end = "the report was refused"
    # endregion
    return f"counted {before}, then {after}; {end}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
