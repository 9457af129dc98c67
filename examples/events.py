"""Events: a function that is called after every commit."""

import lakeward as lw

lake = lw.open("./lake")
lake.create("shop.orders", {"id": "int64", "amount": "double"})
lake.create("shop.seen", {"tables": "string", "message": "string"})


# region: listener
@lake.on("commit")
def note(event: lw.CommitEvent) -> None:
    print(dict(event.versions), dict(event.operations), event.message)
    if "shop.seen" in event.versions:
        return  # the event of the commit below
    with lake.transaction() as tx:
        tx.append("shop.seen", [{"tables": ", ".join(event.versions), "message": event.message}])


with lake.transaction(message="first order") as tx:
    tx.append("shop.orders", [{"id": 1, "amount": 9.5}])
lake.off("commit", note)
# endregion
