"""G0, dirty write: two transactions write the same two tables in opposite order."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")


def attempt(level: str) -> str:
    x, y = f"{level}.x", f"{level}.y"
    for name in (x, y):
        lake.create(name, {"by": "string"})
    # region: steps
    one, two = (lake.transaction(isolation=level) for _ in range(2))
    one.overwrite(x, [{"by": "one"}])
    two.overwrite(x, [{"by": "two"}])
    two.overwrite(y, [{"by": "two"}])
    one.overwrite(y, [{"by": "one"}])
    two.commit()
    try:
        one.commit()
        end = "both committed"
    except Conflict:
        end = "the second to commit was refused"
    # endregion
    rows = [lake.table(name).to_arrow().to_pylist() for name in (x, y)]
    mixed = rows[0] != rows[1]
    return f"{end}; x and y are {'MIXED' if mixed else 'by the same one'}: {rows[0][0]['by']}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
