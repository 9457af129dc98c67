import pandas as pd
from deltalake import DeltaTable

df = pd.DataFrame({"id": [2, 3], "amount": [25.0, 30.0]})
(
    DeltaTable("orders")
    .merge(df, "target.id = source.id", source_alias="source", target_alias="target")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute()
)
