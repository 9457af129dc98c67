"""A commit hook: it sees what is staged, and may refuse it."""

import lakeward as lw
from lakeward.errors import Refused

lake = lw.open("./lake")
lake.create("shop.orders", {"id": "int64", "amount": "double"})


# region: hook
@lake.hooks.before_commit
def no_mass_deletion(staged: lw.StagedCommit) -> None:
    for table in staged.tables.values():
        print(table.name, table.operation, len(table.added), "added", len(table.removed), "removed")
        gone = sum(file.rows or 0 for file in table.removed) - table.read().num_rows
        if gone > 2:
            what = f"{gone} rows of {table.name} would go."
            raise Refused(what, hint="Ask Ada.", table=table.name, rows=gone)


# endregion

# region: use
with lake.transaction() as tx:
    tx.append("shop.orders", [{"id": n, "amount": 10.0 * n} for n in range(5)])
with lake.transaction() as tx:
    tx.delete("shop.orders", where="id = 0")
try:
    with lake.transaction() as tx:
        tx.delete("shop.orders", where="amount > 15")
except Refused as error:
    print(error, error.rows)
print(lake.table("shop.orders").version, lake.table("shop.orders").to_arrow().num_rows)
# endregion
