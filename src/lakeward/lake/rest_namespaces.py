"""The operations of the Iceberg REST catalog on namespaces.

A namespace exists if it was created, or if a table or a view is in it or below it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, InvalidInput, LakewardError, NotFound
from lakeward.log import catalog, heads, namespaces, views
from lakeward.log.database import Session
from lakeward.model.namespaces import ancestors, joined, levels_of
from lakeward.write.commit.once import described, is_first

_KEY_LENGTH: Final = 255
_VALUE_LENGTH: Final = 1000


class NotEmpty(LakewardError):
    """The namespace has tables, views or namespaces inside."""


class RestNamespaces:
    """The part of the catalog for namespaces; each is text with dots, as in names of tables."""

    _context: LakeContext

    def namespaces(self, parent: str | None = None) -> list[str]:
        """Return the namespaces directly inside `parent`, or the outermost ones, by name."""
        depth = 0 if parent is None else len(levels_of(parent))
        with self._context.database.read() as session:
            every = _every(session)
        if parent is not None and parent not in every:
            raise _missing(parent)
        found = (n for n in every if len(levels_of(n)) == depth + 1)
        return sorted(n for n in found if parent is None or parent in ancestors(n))

    def namespace(self, namespace: str) -> dict[str, str]:
        """Return the properties of a namespace; raise `NotFound` if it does not exist."""
        with self._context.database.read() as session:
            _check_exists(session, namespace)
            return namespaces.properties(session, namespace)

    def create_namespace(
        self, levels: Sequence[str], properties: Any = None, key: str | None = None
    ) -> dict[str, str]:
        """Create a namespace; return its properties.

        Raises:
            InvalidName: The name cannot be used.
            AlreadyExists: There is a namespace of this name.
        """
        self._context.database.check_writable()
        namespace, given = joined(levels), _properties(properties or {})
        with self._context.database.write() as session:
            self._context.database.lock_schema(session)
            what = described(f"create namespace {namespace}", given)
            if not is_first(self._context, session, key, what):
                return namespaces.properties(session, namespace)
            if namespace in _every(session):
                said = f"The lake has a namespace {namespace} already."
                raise AlreadyExists(said, namespace=namespace)
            namespaces.enter(session, namespace)
            namespaces.set_properties(session, namespace, given)
        return given

    def change_namespace(
        self, namespace: str, updates: Any, removals: Any, key: str | None = None
    ) -> dict[str, list[str]]:
        """Set and remove properties; return the keys of those `updated`, `removed`, `missing`.

        Raises:
            NotFound: There is no such namespace.
            InvalidInput: A property cannot be stored.
        """
        self._context.database.check_writable()
        new = _properties(updates or {})
        gone = removals or []
        if not isinstance(gone, list) or not all(isinstance(one, str) for one in gone):
            raise InvalidInput("`removals` is no list of texts.")  # noqa: EM101
        with self._context.database.write() as session:
            _check_exists(session, namespace)
            known = namespaces.properties(session, namespace)
            what = described(f"change namespace {namespace}", new, gone)
            if is_first(self._context, session, key, what):
                namespaces.enter(session, namespace)
                namespaces.set_properties(session, namespace, new)
                namespaces.remove_properties(session, namespace, gone)
        removed = sorted(set(gone) & set(known))
        missing = sorted(set(gone) - set(known))
        return {"updated": sorted(new), "removed": removed, "missing": missing}

    def drop_namespace(self, namespace: str, key: str | None = None) -> None:
        """Delete a namespace that has nothing inside.

        Raises:
            NotFound: There is no such namespace.
            NotEmpty: It has tables, views or namespaces inside.
        """
        self._context.database.check_writable()
        with self._context.database.write() as session:
            self._context.database.lock_schema(session)
            what = f"drop namespace {namespace}"
            if not is_first(self._context, session, key, what):
                return
            _check_exists(session, namespace)
            inside = _used(session)
            below = [n for n in _every(session) if namespace in ancestors(n)]
            if namespace in inside or below:
                said = f"Namespace {namespace} is not empty."
                raise NotEmpty(said, hint="Drop what it has first.", namespace=namespace)
            namespaces.delete(session, namespace)


def _used(session: Session) -> set[str]:
    """Return the namespaces that have tables, of either format, or views."""
    tables = {catalog.identifier(head.name)[0] for head in heads.all_heads(session)}
    return tables | {namespace for namespace, _ in views.every(session)}


def _every(session: Session) -> set[str]:
    """Return all namespaces that engines see, and the namespaces that contain these."""
    shown = {
        catalog.identifier(head.name)[0]
        for head in heads.all_heads(session)
        if head.pointer is not None
    }
    named = {*namespaces.entered(session), *shown, *(n for n, _ in views.every(session))}
    return named.union(*map(ancestors, named))


def _check_exists(session: Session, namespace: str) -> None:
    if namespace not in _every(session):
        raise _missing(namespace)


def _missing(namespace: str) -> NotFound:
    return NotFound(f"The lake has no namespace {namespace}.", namespace=namespace)


def _properties(given: Any) -> dict[str, str]:
    """Return the properties of a request; raise `InvalidInput` if one cannot be stored."""
    if not isinstance(given, Mapping):
        raise InvalidInput("The properties are no JSON object.")  # noqa: EM101
    for key, value in given.items():
        is_kept = isinstance(value, str) and len(value) <= _VALUE_LENGTH
        if not is_kept or not 0 < len(key) <= _KEY_LENGTH or key == namespaces.EXISTS:
            what = f"The property {key[:50]!r} of a namespace cannot be kept."
            hint = f"Use texts of at most {_VALUE_LENGTH} characters, and not the key 'exists'."
            raise InvalidInput(what, hint=hint)
    return dict(given)
