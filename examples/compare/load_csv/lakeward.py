import lakeward as lw

lw.open("lake").table("orders").append("new.csv")
