import lakeward as lw

answer = lw.open("lake").table("orders").diff(1, 2)
