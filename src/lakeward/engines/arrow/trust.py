"""Which part of a condition Arrow may skip the row groups of a file by.

Arrow takes the bounds in a Parquet footer for bounds of all values. Most writers leave NaN out of
them, so of a file that may hold a NaN no row group may be skipped by a condition on that column,
not even one that names NaN: Arrow replaces the column by a constant where both bounds are equal.
The log knows a maximum of a float column only where the column has no NaN.
"""

from __future__ import annotations

from lakeward.model.expression import And, Column, Expression, conjuncts, walk
from lakeward.model.file import LoggedFile
from lakeward.model.types import Primitive

_FLOATING = (Primitive("float"), Primitive("double"))


class Trusted:
    """A condition, and the part of it that any file's footer can be trusted with.

    Attributes:
        where: The condition.
        part: The conditions in it, joined by AND, that read no float; None where there are none.
    """

    def __init__(self, where: Expression) -> None:
        self.where = where
        self._floats = _floats(where)
        terms = [term for term in conjuncts(where) if not _floats(term)]
        self.part = None if not terms else terms[0] if len(terms) == 1 else And(tuple(terms))

    def is_whole(self, file: LoggedFile) -> bool:
        """Whether Arrow may skip row groups of a file by the whole condition."""
        stats = file.file.stats
        return all(
            field_id in file.partition or (stats is not None and field_id in stats.maximum)
            for field_id in self._floats
        )

    def condition(self, file: LoggedFile) -> Expression | None:
        """What Arrow may skip row groups of a file by; None where nothing."""
        return self.where if self.is_whole(file) else self.part


def _floats(expression: Expression) -> frozenset[int]:
    """The ids of the float columns, and float parts of columns, that an expression reads."""
    return frozenset(
        node.leaf.id
        for node in walk(expression)
        if isinstance(node, Column) and node.type in _FLOATING
    )
