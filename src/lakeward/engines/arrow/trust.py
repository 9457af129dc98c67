"""Which part of a condition Arrow may skip the row groups of a file by.

Arrow takes the bounds in a Parquet footer for bounds of all values, and compares them as the types
that the file was written with. Both can be wrong:

- Most writers leave NaN out of the bounds. So of a file that may hold a NaN no row group may be
  skipped by a condition on that column, not even one that names NaN: Arrow replaces the column by
  a constant where both bounds are equal. The log knows a maximum of a float column only where the
  column has no NaN.
- A file may hold a column as another type than the table says: delta-rs writes strings as views,
  others timestamps without their zone. Arrow converts the values, and cannot compare the bounds.
"""

from __future__ import annotations

import re
from typing import Final

from lakeward.model.expressions.nodes import And, Expression, columns_in, conjuncts
from lakeward.model.file import LoggedFile
from lakeward.model.types import Primitive

_FLOATING: Final = (Primitive("float"), Primitive("double"))
_OWN_NAME: Final = re.compile(r"-(?!c000)[0-9a-f]{4}(\.[a-z0-9]+)?\.parquet\Z")


class Trusted:
    """A condition, taken apart into what row groups may be skipped by.

    Attributes:
        columns: Names of the columns that the condition reads.
    """

    def __init__(self, where: Expression) -> None:
        self._terms = conjuncts(where)
        self._floats = [
            frozenset(c.leaf.id for c in columns_in(term) if c.type in _FLOATING)
            for term in self._terms
        ]
        self._names = [frozenset(c.field.name for c in columns_in(term)) for term in self._terms]
        self.columns = frozenset[str]().union(*self._names)

    def terms(self, file: LoggedFile, odd: frozenset[str] = frozenset()) -> tuple[int, ...]:
        """The positions of the terms that row groups of a file may be skipped by.

        Args:
            file: The file.
            odd: The columns that it holds as another type than the table says.
        """
        return tuple(
            n
            for n, floats in enumerate(self._floats)
            if all(_is_bounded(file, i) for i in floats) and not odd & self._names[n]
        )

    def is_all(self, terms: tuple[int, ...]) -> bool:
        """Whether the terms are the whole condition."""
        return len(terms) == len(self._terms)

    def joined(self, terms: tuple[int, ...]) -> Expression | None:
        """Some terms as one condition; None where there are none."""
        found = tuple(self._terms[n] for n in terms)
        return And(found) if len(found) > 1 else next(iter(found), None)


def is_named_as_ours(path: str) -> bool:
    """Whether a file has a name as Lakeward gives it, so that its types are what the log says.

    Where that is wrong, a condition on a column of an odd type fails; rows are never lost.
    """
    return _OWN_NAME.search(path) is not None


def _is_bounded(file: LoggedFile, field_id: int) -> bool:
    stats = file.file.stats
    return field_id in file.partition or (stats is not None and field_id in stats.maximum)
