from deltalake import DeltaTable

answer = DeltaTable("orders").load_cdf(starting_version=2, ending_version=2)
