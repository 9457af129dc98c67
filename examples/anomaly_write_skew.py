"""Write skew: two doctors on call, and each goes home because the other one is there."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")


def attempt(level: str) -> str:
    name = f"{level}.on_call"
    lake.create(name, {"doctor": "string"})
    for doctor in ("ada", "bob"):
        lake.run(lambda tx, doctor=doctor: tx.append(name, [{"doctor": doctor}]))
    # region: steps
    ada, bob = (lake.transaction(isolation=level) for _ in range(2))
    for doctor, tx in (("ada", ada), ("bob", bob)):
        if tx.read(name).num_rows > 1:  # somebody else is there
            tx.delete(name, where=f"doctor = '{doctor}'")
    ada.commit()
    try:
        bob.commit()
        end = "both went home"
    except Conflict as error:
        end = f"bob was refused: {error.kind}"
    # endregion
    return f"{end}; on call: {lake.table(name).to_arrow()['doctor'].to_pylist()}"


for level in ("read_committed", "snapshot", "serializable"):
    print(f"{level:14} {attempt(level)}")
