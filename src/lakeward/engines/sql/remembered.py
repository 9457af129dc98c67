"""Caches what queries need from their tables, for texts that are run again."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.engines.sql.pruning import Wanted, wanted
from lakeward.engines.sql.query import Query
from lakeward.model.schema import Schema


def wanted_of(query: Query, schemas: Sequence[Schema]) -> list[Wanted]:
    """Return what a query needs from each of its tables; cached while the schemas are the same."""
    known = query.memo.get("wanted")
    if known is not None and known[0] == tuple(schemas):
        found: list[Wanted] = known[1]
        return found
    found = wanted(query.tree, query.nodes, schemas)
    query.memo["wanted"] = (tuple(schemas), found)
    return found
