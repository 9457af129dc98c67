import pandas as pd

import lakeward as lw

df = pd.DataFrame({"id": [2, 3], "amount": [25.0, 30.0]})
lw.open("lake").table("orders").merge(df, on="id")
