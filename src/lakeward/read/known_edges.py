"""Keeps the lineage of a whole lake, and adds the edges of new commits to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from lakeward.log import lineage
from lakeward.log.database import Session
from lakeward.log.lineage import SourcedCommit
from lakeward.model.file import LIVE
from lakeward.model.lineage.graph import LineageEdge
from lakeward.read.lineage_edges import EdgeReader


class KnownEdges:
    """The edges of all commits that were read, until a table or column gets another name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: Any = None
        self._versions: dict[int, int] = {}
        self._found: dict[Any, LineageEdge] = {}

    def edges(self, session: Session) -> list[LineageEdge]:
        """Return the edges of all commits; of equal edges only the newest."""
        reader = EdgeReader(session)
        with self._lock:
            # Edges have the current names of tables and columns.
            if reader.names() != self._names:
                self._names, self._versions, self._found = reader.names(), {}, {}
            new = list(self._new(session, reader))
            self._found |= {(e.source, e.target, e.kind): e for e in reader.edges_of(new)}
            self._versions |= {c.table_id: c.version for c in new}
            return list(self._found.values())

    def _new(self, session: Session, reader: EdgeReader) -> Iterator[SourcedCommit]:
        """Yield the commits that were not read before, by table and version."""
        if not self._versions:
            yield from lineage.commits(session, None, LIVE)
            return
        for table_id, version in reader.newest().items():
            known = self._versions.get(table_id, -1)
            if known < version:
                yield from lineage.commits(session, table_id, LIVE, after=known)
