from deltalake import write_deltalake
from pyarrow.csv import read_csv

write_deltalake("orders", read_csv("new.csv"), mode="append")
