"""Lost update: two deposits that start from the same balance."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name = f"{level}.accounts"
    lake.create(name, {"balance": "int64"})
    lake.run(lambda tx: tx.append(name, [{"balance": 100}]))
    # region: steps
    one, two = (lake.transaction(isolation=level) for _ in range(2))
    balances = [tx.read(name)["balance"][0].as_py() for tx in (one, two)]
    one.overwrite(name, [{"balance": balances[0] + 10}])
    two.overwrite(name, [{"balance": balances[1] + 5}])
    one.commit()
    try:
        two.commit()
        end = "both committed"
    except Conflict as error:
        end = f"refused: {error.kind}"
    # endregion
    return f"{end}; the balance is {lake.table(name).to_arrow()['balance'][0]}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
