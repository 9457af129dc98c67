import lakeward as lw

with lw.open("lake").transaction() as tx:
    tx.append("orders", "new.csv")
    tx.append("sums", "sums.csv")
