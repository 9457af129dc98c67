"""A directed graph with labelled edges, its strongly connected components, and short cycles."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

N = TypeVar("N", bound=Hashable)
L = TypeVar("L")


@dataclass(frozen=True, slots=True)
class Edge(Generic[N, L]):
    """From a node to another, and why."""

    source: N
    target: N
    label: L


class Graph(Generic[N, L]):
    """Nodes come with their edges. Of two edges between the same nodes the first one stays."""

    def __init__(self) -> None:
        self._edges: dict[N, dict[N, L]] = {}

    def add(self, source: N, target: N, label: L) -> None:
        """Add an edge; one from a node to itself means nothing here and is left out."""
        if source == target:
            return
        self._edges.setdefault(target, {})
        self._edges.setdefault(source, {}).setdefault(target, label)

    def components(self) -> list[set[N]]:
        """The strongly connected components of more than one node (Tarjan, without recursion)."""
        order: dict[N, int] = {}
        low: dict[N, int] = {}
        stack: list[N] = []
        waiting: set[N] = set()
        path: list[tuple[N, Iterator[N]]] = []
        found: list[set[N]] = []

        def enter(node: N) -> None:
            order[node] = low[node] = len(order)
            stack.append(node)
            waiting.add(node)
            path.append((node, iter(self._edges[node])))

        def leave(node: N) -> None:
            path.pop()
            if path:
                parent = path[-1][0]
                low[parent] = min(low[parent], low[node])
            if low[node] == order[node]:
                component = {node}
                while (last := stack.pop()) != node:
                    component.add(last)
                waiting.difference_update(component)
                if len(component) > 1:
                    found.append(component)

        for root in self._edges:
            if root not in order:
                enter(root)
            while path:
                node, successors = path[-1]
                for successor in successors:
                    if successor not in order:
                        enter(successor)
                        break
                    if successor in waiting:
                        low[node] = min(low[node], order[successor])
                else:
                    leave(node)
        return found

    def cycle_through(self, start: N, component: set[N]) -> list[Edge[N, L]]:
        """A shortest cycle from a node back to itself, within its component."""
        came_from: dict[N, N] = {}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for successor in self._edges[node]:
                if successor == start:
                    return self._path(came_from, start, node)
                if successor in component and successor not in came_from:
                    came_from[successor] = node
                    queue.append(successor)
        message = f"{start} is on no cycle"
        raise ValueError(message)

    def _path(self, came_from: dict[N, N], start: N, last: N) -> list[Edge[N, L]]:
        ring = [start, last]
        while ring[-1] != start:
            ring.append(came_from[ring[-1]])
        return [Edge(a, b, self._edges[a][b]) for b, a in pairwise(ring)][::-1]
