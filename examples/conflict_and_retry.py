"""A conflict, and a transaction that runs again by itself."""

import lakeward as lw
from lakeward.errors import Conflict

lake = lw.open("./lake")
lake.create("bank.accounts", {"id": "int64", "balance": "int64"})
for number, balance in ((1, 100), (2, 50)):
    with lake.transaction() as tx:
        tx.append("bank.accounts", [{"id": number, "balance": balance}])


# region: function
def deposit(tx: lw.Transaction, account: int, amount: int) -> None:
    condition = f"id = {account:d}"
    (row,) = tx.read("bank.accounts", where=condition).to_pylist()
    row["balance"] += amount
    tx.overwrite("bank.accounts", [row], where=condition)


# endregion

# region: conflict
first, second = lake.transaction(), lake.transaction()
deposit(first, 1, 10)
deposit(second, 1, 5)
print(dict(first.commit().versions))
try:
    second.commit()
except Conflict as error:
    print(type(error).__name__, error.table, error.version, error.retryable)
# endregion

# region: disjoint
first, second = lake.transaction(), lake.transaction()
deposit(first, 1, 1)
deposit(second, 2, 1)  # another account, in another file
print(dict(first.commit().versions), dict(second.commit().versions))
# endregion

# region: retry
in_the_way = [1000]


def add_five(tx: lw.Transaction) -> None:
    deposit(tx, 1, 5)
    if in_the_way:  # somebody else is faster, the first time
        amount = in_the_way.pop()
        lake.run(lambda other: deposit(other, 1, amount))


result = lake.run(add_five, retry=lw.Retry(attempts=5), message="five more")
print("attempts:", result.attempts)
print(lake.table("bank.accounts").to_arrow().sort_by("id").to_pylist())
# endregion
