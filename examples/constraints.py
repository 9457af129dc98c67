"""Rows that may not be: required columns and checks."""

import pyarrow as pa

import lakeward as lw
from lakeward.errors import ConstraintViolation, SchemaMismatch

lake = lw.open("./lake")

# region: create
invoices = lake.create(
    "sales.invoices",
    pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("amount", pa.float64()),
            pa.field("status", pa.string()),
        ]
    ),
    constraints={
        "positive": "amount > 0",
        "known_status": "status IN ('open', 'paid') OR status IS NULL",
    },
)
# endregion


def append(*rows: dict[str, object]) -> None:
    try:
        with lake.transaction() as tx:
            tx.append("sales.invoices", rows)
        print("committed version", invoices.version)
    except ConstraintViolation as error:
        print("refused:", error.constraint, error.count)
    except SchemaMismatch as error:
        print("refused:", error.what)


# region: violations
append({"id": 1, "amount": 9.5, "status": "open"})
append({"id": 2, "amount": -1.0, "status": "open"}, {"id": 3, "amount": 0.0, "status": "paid"})
append({"id": 4, "amount": None, "status": "open"})  # unknown is not true
append({"id": 5, "amount": 1.0, "status": None})  # here the check itself allows it
append({"id": None, "amount": 1.0, "status": "paid"})
append({"id": 6, "amount": 1.0})
# endregion
