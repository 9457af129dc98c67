import lakeward as lw

answer = lw.open("lake").table("orders").history()
