from deltalake import DeltaTable

answer = DeltaTable("orders").to_pandas()
