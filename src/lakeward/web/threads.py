"""Threads in which requests run: changes and probes have threads of their own.

A change can wait for a lock of a table. If all requests shared their threads, a few dozen changes
of one locked table would stop all pages and other reads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Final, TypeVar

from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from anyio.to_thread import run_sync
from fastapi.routing import APIRoute

from lakeward.model.roles import Role
from lakeward.web.access import need_of

CHANGES_AT_ONCE: Final = 40
"""As many as there are threads for all other requests."""
_PROBES_AT_ONCE: Final = 2
_SAFE: Final = frozenset({"GET", "HEAD"})
_changes: RunVar[CapacityLimiter] = RunVar("lakeward_changes")
_probes: RunVar[CapacityLimiter] = RunVar("lakeward_probes")
T = TypeVar("T")


class ChangingRoute(APIRoute):
    """A route whose endpoint runs in a thread for changes, unless readers may call it."""

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, methods: Any = None, **more: Any
    ) -> None:
        need = need_of(endpoint)
        is_reading = _SAFE.issuperset(methods or _SAFE) or need is None or need.role is Role.READER
        if not is_reading and not iscoroutinefunction(endpoint):
            endpoint = _as_change(endpoint)
        super().__init__(path, endpoint, methods=methods, **more)


async def run_probe(work: Callable[[], T]) -> T:
    """Run a probe in a thread that no other requests use."""
    return await run_sync(work, limiter=_limiter(_probes, _PROBES_AT_ONCE))


def _as_change(endpoint: Callable[..., T]) -> Callable[..., Any]:
    @wraps(endpoint)
    async def run(**values: Any) -> T:
        return await run_sync(
            partial(endpoint, **values), limiter=_limiter(_changes, CHANGES_AT_ONCE)
        )

    return run


def _limiter(kept: RunVar[CapacityLimiter], most: int) -> CapacityLimiter:
    """Return the limiter of the running event loop, to which limiters belong."""
    found = kept.get(None)
    if found is None:
        found = CapacityLimiter(most)
        kept.set(found)
    return found
