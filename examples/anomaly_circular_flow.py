"""G1c, circular information flow: two transactions that each see what the other one writes."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")


def attempt(level: str) -> str:
    x, y = f"{level}.x", f"{level}.y"
    for name in (x, y):
        lake.create(name, {"n": "int64"})
    # region: steps
    one, two = (lake.transaction(isolation=level) for _ in range(2))
    one.append(x, [{"n": 1}])
    two.append(y, [{"n": 2}])
    seen = one.read(y)["n"].to_pylist(), two.read(x)["n"].to_pylist()
    one.commit()
    try:
        two.commit()
        end = "both committed"
    except Conflict:
        end = "the second to commit was refused"
    # endregion
    return f"one saw {seen[0]} of two, two saw {seen[1]} of one; {end}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
