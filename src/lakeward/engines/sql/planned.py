"""A DataFusion context that plans each query so that it returns the right rows.

Casts are compared by their results: see `casts`. Filters reach the right table:

DataFusion 55 maps the columns of a filter by name where it passes the filter down its physical
plan. If two joined tables have a column of the same name, the filter can reach the wrong table, and
rows are missing. Issue 25244 of apache/datafusion describes this; pull request 25259 mends it for
later versions. Two kinds of filters are concerned:

- Dynamic filters, which operators make while they run: the values of one side of a join, and the
  bounds of the first rows. Queries with joins do without. Without joins, no two columns of an
  operator have the same name.
- Conditions that stand above a join after the query is optimized, as with outer joins. A join gets
  them by the positions of columns, but a projection between the two maps by name. Such a projection
  restores the order of columns if the tables of the join are swapped, so tables are swapped only if
  no condition stands above a join. Others drop columns that are not needed any more, so a query is
  planned without them if names are ambiguous. A join on computed values, such as columns of
  different types, always has one; no plan is right if names are ambiguous.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import Enum
from typing import Any, Final, NamedTuple

from datafusion import DataFrame, SessionConfig, SessionContext

from lakeward.engines.sql.casts import FUNCTION, computed
from lakeward.engines.sql.failures import refused
from lakeward.errors import UnsupportedFeature

SETTINGS: Final = {
    "datafusion.optimizer.join_reordering": "false",
    "datafusion.optimizer.enable_dynamic_filter_pushdown": "false",
}
"""What is off unless it is safe for a query."""
_JOINED: Final = re.compile(r" Join:|Subquery:")
_BOUNDED: Final = re.compile(r"Limit:|Aggregate:")
_NODE: Final = re.compile(r"^( *)(?:(\w+) (Join)|(\w+))(?::|$)")
_MADE: Final = re.compile(r" AS (\w+)")
_READ: Final = re.compile(r" projection=\[(.*?)\](?:,|$)")
_WORD: Final = re.compile(r"\w+")
_SWAPPABLE: Final = frozenset({"Inner", "Cross", "LeftSemi", "RightSemi", "LeftAnti", "RightAnti"})
_RULES: Final = (
    "optimize_projections",
    "common_sub_expression_eliminate",
    "extract_leaf_expressions",
    "push_down_leaf_projections",
)
"""Rules of the optimizer that put projections below conditions."""


_WHAT: Final = (
    "DataFusion 55 can lose rows of this query: it joins tables on computed values, or on columns"
    " of different types, and its condition names a column that several of the tables have."
)
_HINT: Final = (
    "Give engine='duckdb' (--engine duckdb), or compute the values, or cast the column, in a"
    " subquery that is joined."
)


class Way(Enum):
    """How a query is planned; the value is run in the context that plans it."""

    PLAIN = ""
    SWAPPED = "SET datafusion.optimizer.join_reordering = true"
    DYNAMIC = "SET datafusion.optimizer.enable_dynamic_filter_pushdown = true"
    UNPRUNED = "SET datafusion.optimizer.enable_leaf_expression_pushdown = false"


class PlannedContext(SessionContext):
    """A context whose `sql` plans each query in the way that is safe and fastest for it."""

    def __init__(self, config: SessionConfig, *args: Any) -> None:
        for name, value in SETTINGS.items():
            config = config.set(name, value)
        super().__init__(config, *args)
        self._others: dict[Way, SessionContext] = {}

    def sql(self, query: str, *args: Any, **named: Any) -> DataFrame:
        """Plan a query, in which all casts are computed: see `casts`; raise `InvalidInput`."""
        try:
            frame = super().sql(computed(query), *args, **named)
        except Exception as error:
            raise refused(error) from error
        way = way_of(frame)
        if way is Way.PLAIN:
            return frame
        return self._other(way).create_dataframe_from_logical_plan(frame.logical_plan())

    def names(self, frame: DataFrame, query: str, *args: Any, **named: Any) -> list[str]:
        """Return the names of a planned query's columns, without what `sql` put around casts."""
        found = list(frame.schema().names)
        if computed(query) != query and any(FUNCTION in name for name in found):
            return list(super().sql(query, *args, **named).schema().names)
        return found

    def _other(self, way: Way) -> SessionContext:
        found = self._others.get(way)
        if found is None:
            # The only method that makes a context with settings of its own and the same files.
            # Paths as tables, which it allows, cannot occur in a query that is planned already.
            found = SessionContext.enable_url_table(self)
            SessionContext.sql(found, way.value)
            for rule in _RULES if way is Way.UNPRUNED else ():
                found.remove_optimizer_rule(rule)
            self._others[way] = found
        return found


def way_of(frame: DataFrame) -> Way:
    """Return how a query is planned."""
    asked = frame.logical_plan().display_indent()
    if _JOINED.search(asked) is None:
        return Way.DYNAMIC if _BOUNDED.search(asked) is not None else Way.PLAIN
    return _way_of_joins(frame.optimized_logical_plan().display_indent())


def _way_of_joins(plan: str) -> Way:
    nodes, way = _nodes(plan), Way.SWAPPED
    for number, node in enumerate(nodes):
        if node.kind == "Join" and node.join not in _SWAPPABLE and way is Way.SWAPPED:
            way = Way.PLAIN
        reached = _below(nodes, number, "Aggregate", "Join") if node.kind == "Filter" else []
        joins = [n for n in reached if n.kind == "Join"]
        if not joins:
            continue
        way = Way.PLAIN if way is Way.SWAPPED else way
        if not _ambiguous(_below(nodes, number, "Aggregate")) & set(_WORD.findall(node.text)):
            continue
        if any("(" in n.text.partition(" Filter: ")[0] for n in joins):
            raise UnsupportedFeature(_WHAT, hint=_HINT)
        if any(n.kind == "Projection" for n in reached):
            way = Way.UNPRUNED
    return way


class _Node(NamedTuple):
    depth: int
    kind: str
    join: str | None
    text: str


def _nodes(plan: str) -> list[_Node]:
    nodes: list[_Node] = []
    for line in plan.splitlines():
        found = _NODE.match(line)
        if found is None:  # the rest of a text with several lines
            last = nodes.pop()
            nodes.append(last._replace(text=f"{last.text}\n{line}"))
        else:
            kind = found[3] or found[4]
            nodes.append(_Node(len(found[1]), kind, found[2], line[found.end() :].strip()))
    return nodes


def _below(nodes: list[_Node], number: int, *ends: str) -> list[_Node]:
    """Return the nodes below one, down to those of some kinds.

    Aggregates pass down only conditions on their groups, which are not above them any more.
    """
    found: list[_Node] = []
    end: int | None = None
    for node in nodes[number + 1 :]:
        if node.depth <= nodes[number].depth:
            break
        if end is not None and node.depth > end:
            continue
        end = node.depth if node.kind in ends else None
        found.append(node)
    return found


def _ambiguous(nodes: list[_Node]) -> set[str]:
    """Return the names that several of the columns below a condition have."""
    counted: Counter[str] = Counter()
    for node in nodes:
        read = _READ.search(node.text) if node.kind == "TableScan" else None
        counted.update(set(_WORD.findall(read[1])) if read is not None else ())
        counted.update(set(_MADE.findall(node.text)))
    return {name for name, times in counted.items() if times > 1}
