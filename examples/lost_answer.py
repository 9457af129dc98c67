"""A worker dies before it can say whether it committed. Its id tells."""

import multiprocessing
import os

import lakeward as lw

JOB = "load-2026-11-15"


# region: load
def load(lake: lw.Lake) -> lw.CommitResult:
    with lake.transaction(transaction_id=JOB) as tx:
        tx.append("sales.orders", [{"id": 1}, {"id": 2}])
    return tx.commit()


# endregion


def worker() -> None:
    load(lw.open("./lake"))
    os._exit(1)  # dead, and nobody heard the answer


if __name__ == "__main__":
    lake = lw.open("./lake")
    orders = lake.create("sales.orders", {"id": "int64"})
    process = multiprocessing.get_context("spawn").Process(target=worker)
    process.start()
    process.join()
    print("the worker ended with", process.exitcode)

    # region: ask
    outcome = lake.outcome(JOB)
    print(outcome.state.value, outcome.committed, outcome.versions)
    # endregion

    # region: again
    print(dict(load(lake).versions))  # the same id commits once
    print(orders.version, orders.to_arrow().num_rows)
    # endregion
