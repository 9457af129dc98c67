import pandas as pd
from deltalake import write_deltalake

df = pd.DataFrame({"id": [3, 4], "amount": [30.0, 40.0]})
write_deltalake("orders", df, mode="append")
