"""Conflicts that are settled instead of refused: by key, and by a function of your own."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")
lake.create("shop.prices", {"id": "int64", "price": "int64"})
lake.run(lambda tx: tx.append("shop.prices", [{"id": n, "price": 10} for n in (1, 2, 3)]))


def set_prices(tx: lw.Transaction, prices: dict[int, int]) -> None:
    rows = [{"id": number, "price": price} for number, price in prices.items()]
    numbers = ", ".join(str(int(number)) for number in prices)
    tx.overwrite("shop.prices", rows, where=f"id IN ({numbers})")


def show() -> None:
    found = lake.table("shop.prices").to_arrow().sort_by("id").to_pylist()
    print({row["id"]: row["price"] for row in found})


# region: keys
tx = lake.transaction(on_conflict=lw.LastWriterWins(key="id"))
set_prices(tx, {1: 11, 4: 14})
lake.run(lambda other: set_prices(other, {1: 99, 2: 22}))  # somebody else was faster
print("attempts:", tx.commit().attempts)
show()  # 1 is ours, 2 is theirs
# endregion


# region: function
def keep_the_cheaper(collision: lw.Collision) -> lw.Replace:
    print(collision.table, collision.base_version, "to", collision.version, collision.kind)
    cheapest: dict[int, int] = {}
    for side in (collision.read_theirs(), collision.read_ours()):
        for row in side.to_pylist():
            cheapest[row["id"]] = min(row["price"], cheapest.get(row["id"], row["price"]))
    return lw.Replace([{"id": number, "price": price} for number, price in cheapest.items()])


with lake.transaction(on_conflict=keep_the_cheaper) as tx:
    set_prices(tx, {1: 5, 2: 50})
    lake.run(lambda other: set_prices(other, {1: 7, 2: 7}))
show()
# endregion

# region: per-table
lake.create("shop.log", {"what": "string"})
lake.run(lambda tx: tx.append("shop.log", [{"what": "begin"}]))
tx = lake.transaction(on_conflict={"shop.prices": lw.LastWriterWins(key="id")})
set_prices(tx, {3: 33})
tx.overwrite("shop.log", [{"what": "prices"}])
lake.run(lambda other: other.overwrite("shop.log", [{"what": "something else"}]))
try:
    tx.commit()
except Conflict as error:
    print("refused:", error.table, error.kind, error.other_version)
show()
# endregion
