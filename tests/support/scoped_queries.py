"""Random queries of Spark SQL whose tables, WITH entries and aliases have the same few names."""

from __future__ import annotations

from random import Random
from typing import Final

NAMES: Final = ("a", "b", "c")
"""Tables without a namespace; entries of WITH and aliases take the same names."""
QUALIFIED: Final = ("s.a", "s.b")
"""Tables of a namespace, which nothing hides."""


class ScopedQueries:
    """A source of queries with the columns `id` and `v`.

    Args:
        seed: The same one gives the same queries.

    Attributes:
        tables: The names in all queries so far that mean tables.
        entries: The names of their entries of WITH.
    """

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.tables: list[str] = []
        self.entries: set[str] = set()

    @property
    def clashes(self) -> bool:
        """Whether a name means a table in one place and an entry of WITH in another."""
        return not self.entries.isdisjoint(self.tables)

    def query(self, depth: int, hidden: frozenset[str] = frozenset()) -> str:
        """A query.

        Args:
            depth: How deeply it may be nested.
            hidden: Names that stand for an entry of WITH where the query is put.
        """
        if depth == 0 or self._random.random() < 0.1:
            return self._plain(hidden)
        forms = (
            self._with, self._with, self._recursive, self._union, self._derived, self._filtered,
            self._correlated, self._scalar, self._exploded, self._joined, self._lateral,
        )  # fmt: skip
        return self._random.choice(forms)(depth - 1, hidden)

    def _name(self, hidden: frozenset[str]) -> str:
        name = self._random.choice((*NAMES, *NAMES, *QUALIFIED))
        if name not in hidden:
            self.tables.append(name)
            return name
        # Entries of WITH go by their names in any case of letters.
        return name.upper() if self._random.random() < 0.3 else name

    def _table(self) -> str:
        self.tables.append(self._random.choice(QUALIFIED))
        return self.tables[-1]

    def _plain(self, hidden: frozenset[str]) -> str:
        name = self._name(hidden)
        alias = self._random.choice(NAMES)
        return self._random.choice(
            (
                f"SELECT id, v FROM {name}",
                f"SELECT {name}.id, {name}.v FROM {name}",
                f"SELECT {alias}.id, {alias}.v FROM {name} AS {alias}",
                f"SELECT {alias}.* FROM {name} {alias}",
                f"FROM {name} SELECT {name}.id, v + 1 AS v",
            )
        )

    def _with(self, depth: int, hidden: frozenset[str]) -> str:
        names = self._random.sample(NAMES, self._random.choice((1, 1, 2)))
        self.entries |= set(names)
        entries = []
        for name in names:
            entries.append(f"{name} AS ({self.query(depth, hidden)})")
            hidden |= {name}
        # A query that begins with WITH of its own must be in parentheses.
        return f"WITH {', '.join(entries)} SELECT id, v FROM ({self.query(depth, hidden)})"

    def _recursive(self, depth: int, hidden: frozenset[str]) -> str:
        name = self._random.choice(NAMES)
        self.entries.add(name)
        first = f"SELECT min(id), max(v) FROM {self._table()}"
        step = f"SELECT id + 1, v FROM {name} WHERE id < 4"
        inner = self.query(depth, hidden | {name})
        return (
            f"WITH RECURSIVE {name}(id, v) AS ({first} UNION ALL {step})"
            f" SELECT id, v FROM ({inner})"
        )

    def _union(self, depth: int, hidden: frozenset[str]) -> str:
        left, right = self.query(depth, hidden), self.query(depth, hidden)
        word = self._random.choice(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
        return f"({left}) {word} ({right})"

    def _derived(self, depth: int, hidden: frozenset[str]) -> str:
        alias = self._random.choice(NAMES)
        return f"SELECT {alias}.id, {alias}.v FROM ({self.query(depth, hidden)}) AS {alias}"

    def _filtered(self, depth: int, hidden: frozenset[str]) -> str:
        word = self._random.choice(("IN", "NOT IN"))
        inner = f"SELECT id FROM ({self.query(depth, hidden)})"
        return f"SELECT id, v FROM {self._name(hidden)} WHERE id {word} ({inner})"

    def _correlated(self, depth: int, hidden: frozenset[str]) -> str:
        word = self._random.choice(("EXISTS", "NOT EXISTS"))
        outer, alias = self._random.sample(NAMES, 2)
        inner = f"SELECT 1 FROM ({self.query(depth, hidden)}) AS {alias}"
        return (
            f"SELECT id, v FROM {self._name(hidden)} AS {outer}"
            f" WHERE {word} ({inner} WHERE {alias}.id = {outer}.id)"
        )

    def _scalar(self, depth: int, hidden: frozenset[str]) -> str:
        table = self._table()
        alias = self._random.choice(NAMES)
        inner = f"SELECT max({alias}.v) FROM ({self.query(depth, hidden)}) AS {alias}"
        return f"SELECT id, ({inner} WHERE {alias}.id = {table}.id) AS v FROM {table}"

    def _exploded(self, depth: int, hidden: frozenset[str]) -> str:
        alias = self._random.choice(NAMES)
        # The rows have no name of their own, so only the exploded ones have the alias.
        rows = f"(SELECT id AS k, v AS w FROM ({self.query(depth, hidden)}))"
        return (
            f"SELECT k AS id, {alias}.v FROM {rows} LATERAL VIEW explode(array(w, w + 1))"
            f" {alias} AS v"
        )

    def _joined(self, depth: int, hidden: frozenset[str]) -> str:
        first, second = self._random.sample(QUALIFIED, 2)
        self.tables += [first, second]
        inner = self.query(depth, hidden)
        name = self._random.choice(NAMES)
        return (
            f"SELECT {first}.id, {second}.v FROM {first} JOIN {second} ON {first}.id = {second}.id"
            f" JOIN ({inner}) AS {name}_ ON {name}_.id = {first}.id"
        )

    def _lateral(self, depth: int, hidden: frozenset[str]) -> str:
        outer, alias = self._random.sample(NAMES, 2)
        inner = f"SELECT max({alias}.v) AS v FROM ({self.query(depth, hidden)}) AS {alias}"
        return (
            f"SELECT {outer}.id, l.v FROM {self._name(hidden)} AS {outer},"
            f" LATERAL ({inner} WHERE {alias}.id <= {outer}.id) AS l"
        )
