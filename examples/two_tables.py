"""Two tables change together, or not at all."""

import lakeward as lw
from lakeward.errors import ConstraintViolation

lake = lw.open("./lake")
lake.create("shop.stock", {"item": "string", "quantity": "int64"})
lake.create("shop.sales", {"item": "string", "sold": "int64"}, constraints={"some": "sold > 0"})

# region: commit
with lake.transaction(message="opening stock") as tx:
    tx.append("shop.stock", [{"item": "tea", "quantity": 7}, {"item": "rice", "quantity": 3}])

with lake.transaction(message="two teas") as tx:
    left = tx.read("shop.stock", where="item = 'tea'").to_pylist()[0]["quantity"] - 2
    tx.overwrite("shop.stock", [{"item": "tea", "quantity": left}], where="item = 'tea'")
    tx.append("shop.sales", [{"item": "tea", "sold": 2}])

result = tx.commit()  # committed when the block ended; this returns the same result again
print(dict(result.versions))
# endregion

# region: rollback
try:
    with lake.transaction() as tx:
        tx.overwrite("shop.stock", [], where="item = 'rice'")
        tx.append("shop.sales", [{"item": "rice", "sold": 0}])
except ConstraintViolation as error:
    print(error.constraint, error.count, error.sample)
# endregion

# region: cut
with lake.snapshot() as snapshot:
    print(dict(snapshot.versions))
    print(snapshot.table("shop.stock").to_arrow().sort_by("item").to_pylist())
    print(snapshot.table("shop.sales").to_arrow().to_pylist())
# endregion

# region: same-transaction
for name in ("shop.sales", "shop.stock"):
    newest = lake.table(name).history(limit=1)[0]
    print(name, newest.version, newest.message, newest.transaction_id == result.transaction_id)
# endregion
