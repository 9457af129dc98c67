"""Locks: a counter that nobody loses, a table that is kept waiting for, and a deadlock."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import lakeward as lw
from lakeward.errors import Deadlock, Locked

lake = lw.open("./lake")
for name in ("shop.stock", "shop.sales"):
    lake.create(name, {"n": "int64"})
    with lake.transaction() as tx:
        tx.append(name, [{"n": 0}])


# region: counter
def add_one(tx: lw.Transaction) -> None:
    (row,) = tx.read("shop.stock").to_pylist()
    tx.overwrite("shop.stock", [{"n": row["n"] + 1}])


with ThreadPoolExecutor(4) as pool:
    work = [pool.submit(lake.run, add_one, locks={"shop.stock": "write"}) for _ in range(8)]
print("attempts:", {future.result().attempts for future in work})
print(lake.table("shop.stock").to_arrow().to_pylist())
# endregion

# region: held
with lake.transaction(locks={"shop.stock": "write"}) as holder:
    for lock in lake.locks():
        print(lock.table, lock.mode, lock.transaction_id == holder.transaction_id)
    other = lake.transaction()
    try:
        other.lock("shop.stock", mode="read", timeout=0.1)
    except Locked as error:
        print("locked:", error.table, error.holders == [holder.transaction_id])
    print("still open:", other.is_open)
    other.rollback()
# endregion

# region: commit
keeper = lake.transaction(locks={"shop.sales": "read"})
with lake.transaction() as tx:
    tx.append("shop.sales", [{"n": 1}])  # who only appends passes a read lock
late = lake.transaction(lock_timeout=0.1)
late.delete("shop.sales", where="n = 0")
try:
    late.commit()  # who changes rows waits, and not for ever
except Locked as error:
    print("nothing committed:", error.table, lake.table("shop.sales").version)
keeper.rollback()
# endregion

# region: deadlock
both_hold_one = Barrier(2)
gave_way = []


def move(first: str, second: str) -> lw.CommitResult:
    attempts = []

    def work(tx: lw.Transaction) -> None:
        attempts.append(tx.transaction_id)
        tx.lock(first)
        if len(attempts) == 1:
            both_hold_one.wait()  # so that they surely meet
        try:
            tx.lock(second)
        except Deadlock as error:
            gave_way.append(error)
            raise
        tx.append(first, [{"n": 1}])
        tx.append(second, [{"n": 1}])

    return lake.run(work)


with ThreadPoolExecutor(2) as pool:
    one = pool.submit(move, "shop.stock", "shop.sales")
    two = pool.submit(move, "shop.sales", "shop.stock")
print("attempts:", sorted([one.result().attempts, two.result().attempts]))
print("gave way:", [error.tables for error in gave_way])
# endregion
