from deltalake import DeltaTable

answer = DeltaTable("orders").history()
