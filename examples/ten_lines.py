import lakeward as lw

lake = lw.open("./lake")
orders = lake.create("sales.orders", {"id": "int64", "amount": "double"})
stock = lake.create("shop.stock", {"item": "string", "quantity": "int64"})
with lake.transaction(message="the first sale") as tx:
    tx.append("sales.orders", [{"id": 1, "amount": 9.5}, {"id": 2, "amount": 20.0}])
    tx.append("shop.stock", [{"item": "tea", "quantity": 7}])

print(dict(tx.commit().versions))
print(orders.to_arrow(where="amount > 10").to_pylist())
print(orders.at(version=0).to_arrow().num_rows, "rows before the sale")
