"""The store, the warehouse and the settings of an open lake, passed to all code that uses them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from threading import Lock
from typing import Any, Protocol, TypeAlias, TypeVar

from lakeward.errors import LakewardError, WrongWarehouse
from lakeward.log import binding, definitions, policies
from lakeward.log.binding import Binding
from lakeward.log.database import Database, Session
from lakeward.model.commit import Head
from lakeward.model.counters import Counters
from lakeward.model.definition import Definition
from lakeward.model.delivery import Events
from lakeward.storage.base import Storage

_T = TypeVar("_T")
_Key: TypeAlias = tuple[int, int, int, str, str]


@dataclass(frozen=True)
class LakeContext:
    """A lake's store, its warehouse, and who works with it.

    Attributes:
        database: The log.
        storage: The files.
        actor: The user name that every commit and audit entry records.
        merge_memory: Bytes that the data of a merge may take in memory.
        bound: The warehouse that the store recorded when the lake was opened.
        counters: Counts of what this lake object did so far.
        events: The listeners of this lake object.
    """

    database: Database
    storage: Storage
    actor: str
    merge_memory: int
    bound: Binding | None = None
    counters: Counters = field(default_factory=Counters)
    events: Events = field(default_factory=Events, repr=False)
    _definitions: dict[_Key, Definition] = field(default_factory=dict, repr=False)
    _caches: dict[object, Any] = field(default_factory=dict, repr=False)
    _last_actions: list[Callable[[], None]] = field(default_factory=list, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.events.counters = self.counters

    @property
    def engine(self) -> str:
        """The program name that every commit records."""
        return _program()

    @property
    def identity(self) -> str:
        """The random id that the store and its warehouse share; empty before they are bound."""
        return "" if self.bound is None else self.bound.identity

    def cache(self, make: Callable[[], _T]) -> _T:
        """Return the object that `make` returned for this lake; call `make` the first time only."""
        with self._lock:
            if make not in self._caches:
                self._caches[make] = make()
            found: _T = self._caches[make]
        return found

    def at_end(self, action: Callable[[], None]) -> None:
        """Have a function called before the lake is closed, such as one that writes a buffer."""
        self._last_actions.append(action)

    def end(self) -> None:
        """Call the functions that `at_end` was given; ignore errors of the lake."""
        for action in self._last_actions:
            with suppress(LakewardError):
                action()

    def check_bound(self, session: Session) -> None:
        """Raise `WrongWarehouse` if the lake was relocated after it was opened here."""
        found = None if self.bound is None else binding.read(session)
        if found is not self.bound and found != self.bound:
            what = "The lake was relocated since it was opened here. Nothing was written."
            hint = "Open it again."
            raise WrongWarehouse(what, hint=hint, warehouse=self.storage.root)

    def definition(self, session: Session, head: Head) -> Definition:
        """Return the newest definition of a head's table, with the policies that match.

        It is cached, unless the session itself inserted definitions: if it is rolled back, another
        definition may get the same id.
        """
        name = head.name
        key = (head.table_id, head.definition_id, head.policy_id, name.namespace, name.name)
        found = self._definitions.get(key)
        if found is None:
            recorded = definitions.get(session, head.table_id, head.definition_id)
            found = self.governed(session, head, recorded)
            if not session.has_redefined:
                self._definitions[key] = found
        return found

    def governed(self, session: Session, head: Head, definition: Definition) -> Definition:
        """Return a definition with the policies of patterns that match the table now."""
        rules = policies.for_table(session, head.name)
        return replace(definition, rules=rules) if rules else definition


@cache
def _program() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"Lakeward/{version('lakeward')}"
    except PackageNotFoundError:
        return "Lakeward"


class HasContext(Protocol):
    """The type of a parameter that takes a `Lake`, in layers that must not import `Lake`."""

    @property
    def _context(self) -> LakeContext: ...


class LakeLike(HasContext, Protocol):
    """Like `HasContext`, for pipelines and streams, which also begin transactions."""

    def transaction(
        self,
        *,
        spark: Any = None,
        message: str | None = None,
        transaction_id: str | None = None,
    ) -> Any:
        """Begin a transaction."""


def context_of(lake: HasContext) -> LakeContext:
    """Return the context of a lake: its store and files, which its public interface hides."""
    return lake._context
