import pandas as pd

import lakeward as lw

df = pd.DataFrame({"id": [3, 4], "amount": [30.0, 40.0]})
lw.open("lake").table("orders").append(df)
