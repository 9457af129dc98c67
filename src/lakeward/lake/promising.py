"""The service levels of a lake."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lakeward.context import LakeContext
from lakeward.model import arguments, events
from lakeward.model.clock import now_ms, to_datetime

if TYPE_CHECKING:
    from lakeward.model.service_levels import Attainment, ServiceLevelRecord


class Promising:
    """The part of a lake that declares service levels, and says how far they are kept."""

    _context: LakeContext

    def set_service_level(self, name: str, level: Mapping[str, Any] | None) -> None:
        """Declare what a table or a pipeline promises; None removes the promise.

        A level has `objective` (`freshness`, `commit_latency`, `throughput` or `maintenance` of a
        `table`, `run_duration` or `run_success` of a `pipeline`), its limit (`max`, such as
        `1 hour`, or `min` in rows a second), `target`, the share to be kept, 0.99 unless given, and
        `window`, 30 days unless given.

        Args:
            name: Unique in the lake.
            level: The promise.

        Raises:
            InvalidInput: There is no such objective, or something that it needs is missing.
            NotFound: There is no such service level to remove.
        """
        from lakeward.errors import NotFound
        from lakeward.log import service_levels
        from lakeward.model.service_levels import ServiceLevel

        own = arguments.text(name, "name")
        if level is not None:
            ServiceLevel.of(own, level)
        self._context.database.check_writable()
        with self._context.database.write() as session:
            if level is not None:
                body = arguments.mapping(level, own)
                service_levels.put(session, own, body, self._context.actor, now_ms())
            elif not service_levels.remove(session, own):
                what = f"There is no service level {own!r}."
                raise NotFound(what, hint="`lakeward sla` lists them.")

    def service_levels(self) -> list[ServiceLevelRecord]:
        """Return the service levels that are declared, by name."""
        from lakeward.read.service_levels import declared

        with self._context.database.read() as session:
            return declared(session)

    def sla(self) -> list[Attainment]:
        """Return how far each service level is kept over its window, from the log.

        One that is not kept is an event `service_level`.
        """
        from lakeward.read.service_levels import attained

        database = self._context.database
        with database.read() as session:
            now = database.clock_ms(session)
            found = attained(session, now)
        if self._context.events.wants(events.SERVICE_LEVEL):
            for one in found:
                if one.kept is False:
                    event = events.ServiceLevelEvent(
                        name=one.name,
                        subject=one.subject,
                        wanted=one.wanted,
                        attained=one.attained,
                        timestamp=to_datetime(now),
                    )
                    self._context.events.deliver(events.SERVICE_LEVEL, event)
        return found
