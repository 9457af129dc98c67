"""Bound expressions computed for the rows of a table, in the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from lakeward.engines.arrow.expression import to_arrow
from lakeward.errors import InvalidExpression
from lakeward.model.expressions.nodes import Expression
from lakeward.model.types import arrow_type

Mask: TypeAlias = npt.NDArray[np.bool_]


def holds(rows: pa.Table, condition: Expression | None, what: str) -> Mask:
    """For which rows a condition is true; all of them where there is none.

    Raises:
        InvalidExpression: It cannot be computed for a row.
    """
    if condition is None:
        return np.ones(rows.num_rows, dtype=bool)
    (found,) = _project(rows, [pc.coalesce(to_arrow(condition), pc.scalar(False))], what)
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=bool)


def computed(
    rows: pa.Table, expressions: Mapping[str, Expression], what: str
) -> dict[str, pa.ChunkedArray]:
    """The value of each expression for every row, of the expression's type.

    Raises:
        InvalidExpression: One cannot be computed for a row: a number overflows, a cast does not
            fit.
    """
    found = _project(rows, [to_arrow(e) for e in expressions.values()], what)
    kinds = [arrow_type(e.type) for e in expressions.values()]
    columns = [c if c.type.equals(k) else c.cast(k) for c, k in zip(found, kinds, strict=True)]
    return dict(zip(expressions, columns, strict=True))


def _project(rows: pa.Table, expressions: list[Any], what: str) -> list[pa.ChunkedArray]:
    if not rows.num_columns:
        # Arrow takes the number of rows from columns; an expression may read none.
        rows = pa.table({"row": pa.nulls(rows.num_rows)})
    names = [str(n) for n in range(len(expressions))]
    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(rows)),
            acero.Declaration("project", acero.ProjectNodeOptions(expressions, names)),
        ]
    )
    try:
        # Several threads would not keep the order of the rows.
        return list(plan.to_table(use_threads=False).columns)
    except pa.ArrowInvalid as error:
        text = f"{what} cannot be computed for a row: {error}."
        raise InvalidExpression(text, hint="Nothing was committed.") from error
