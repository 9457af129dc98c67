"""The lake's Iceberg tables as a catalog that other engines ask over HTTP.

Every commit becomes a commit of the lake: one of rows, of one table or of several, is a transaction
of its own; one of a table's definition is recorded as the engine wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound, UnsupportedFeature
from lakeward.formats.iceberg.requests import TableCommit
from lakeward.formats.iceberg.requests import is_staged as is_staged
from lakeward.formats.iceberg.requests import parse_commit as parse_commit
from lakeward.lake.transactions import Transactions
from lakeward.log import catalog, heads
from lakeward.model.commit import Head
from lakeward.model.names import TableName
from lakeward.write.commit.publications import current

if TYPE_CHECKING:
    from lakeward.write.transaction.lifecycle import CommitResult


class RestCatalog:
    """Answers what Iceberg's REST protocol asks, for the lake's tables that are Iceberg's."""

    def __init__(
        self, context: LakeContext, transactions: Transactions, create: Callable[..., object]
    ) -> None:
        self._context = context
        self._transactions = transactions
        self._create = create

    def namespaces(self) -> list[str]:
        """The namespaces of Iceberg tables, and those that clients created, by name."""
        with self._context.database.read() as session:
            entered = catalog.namespaces(session)
        return sorted({*entered, *(catalog.identifier(head.name)[0] for head in self._heads())})

    def create_namespace(self, namespace: str) -> None:
        """Enter a namespace.

        Raises:
            InvalidName: The name cannot be used.
            AlreadyExists: There is one of this name.
        """
        TableName.parse(f"{namespace}.t")
        self._context.database.check_writable()
        if namespace in self.namespaces():
            what = f"The lake has a namespace {namespace} already."
            raise AlreadyExists(what, namespace=namespace)
        with self._context.database.write() as session:
            catalog.enter_namespace(session, namespace)

    def tables(self, namespace: str) -> list[TableName]:
        """The Iceberg tables of a namespace, by name."""
        found = (head.name for head in self._heads())
        return [name for name in found if catalog.identifier(name)[0] == namespace]

    def name_of(self, namespace: Sequence[str], name: str) -> TableName:
        """The lake's name of a table; tables without a namespace are in `default`."""
        if len(namespace) != 1:
            what = "Namespaces of the lake have one level."
            raise InvalidInput(what, hint="Name a table by one namespace and its name.")
        if namespace[0] == catalog.NAMESPACE:
            plain = TableName.parse(name)
            with self._context.database.read() as session:
                if heads.find(session, plain) is not None:
                    return plain
        return TableName.parse(f"{namespace[0]}.{name}")

    def load(self, name: TableName) -> dict[str, Any]:
        """A table's metadata and where it is, as the protocol answers them.

        Raises:
            TableNotFound: There is no such table, or it is no Iceberg table.
        """
        from lakeward.formats.iceberg.metadata import document_of

        document = document_of(self._context, self._head(name))
        return {
            "metadata-location": document.location,
            "metadata": orjson.Fragment(document.encode()),
        }

    def stage(self, namespace: str, body: Any) -> dict[str, Any]:
        """The metadata of a table that a client will create by a commit; nothing is kept of it."""
        from lakeward.formats.iceberg.requests import staged_document
        from lakeward.write.branch.remote_creation import new_place

        name = TableName.parse(f"{namespace}.{body.get('name')}")
        self._check_absent(name)
        place = self._context.storage.uri(new_place(name))
        return {"metadata": orjson.Fragment(staged_document(body, place))}

    def register(self, namespace: str, body: Any, adopt: Callable[..., object]) -> TableName:
        """Take a table into the lake that exists as a metadata file; its name."""
        name = TableName.parse(f"{namespace}.{body.get('name')}")
        place = body.get("metadata-location")
        if not isinstance(place, str) or not place.endswith(".metadata.json"):
            raise InvalidInput("The request names no metadata file.")  # noqa: EM101
        adopt(str(name), place, format="iceberg")
        return name

    def create(self, namespace: str, body: Any) -> TableName:
        """Create an empty table as a client asks for it; its name."""
        from lakeward.formats.iceberg.requests import table_to_create

        asked = table_to_create(body)
        name = TableName.parse(f"{namespace}.{asked.pop('name')}")
        schema = asked.pop("schema")
        self._create(str(name), schema, format="iceberg", **asked)
        return name

    def commit(
        self, commits: Sequence[TableCommit], *, transaction_id: str | None = None
    ) -> CommitResult | None:
        """Commit changes of one or several tables, all of them or none.

        Args:
            commits: One for each table.
            transaction_id: An id of the client's own choice: the commit is made once.

        Raises:
            Conflict: A table is not as its commit requires; nothing was committed.
            UnsupportedFeature: One of several tables changes more than its rows.
        """
        from lakeward.write.branch import remote

        self._context.database.check_writable()
        wanted = [(self.name_of(c.namespace, c.name), c) for c in commits]
        if len({name for name, _ in wanted}) != len(wanted):
            raise InvalidInput("A table is named twice in one commit.")  # noqa: EM101
        begun = self._transactions.begin(
            isolation="snapshot", message=None, transaction_id=transaction_id
        )
        if begun._is_replay():
            done = begun.commit()
            if not set(done.versions) <= {str(name) for name, _ in wanted}:
                what = "The idempotency key was used for a commit of other tables."
                raise InvalidInput(what, hint="Choose a new key for each commit.")
            return done
        if len(wanted) == 1 and self._commit_as_written(*wanted[0]):
            return None
        if not all(commit.changes_rows_only for _, commit in wanted):
            what = "A commit of several tables changes the definition of one of them."
            hint = "Commit changes of columns and properties table by table."
            raise UnsupportedFeature(what, hint=hint)
        with begun as tx:
            for name, commit in wanted:
                remote.stage(self._context, tx, self._head(name), commit)
        return tx.commit()

    def _commit_as_written(self, name: TableName, commit: TableCommit) -> bool:
        """Commit what cannot be a change of a transaction; False if it can."""
        from lakeward.write.branch import remote

        if commit.creates:
            self._create_staged(name, commit)
            return True
        head = self._head(name)
        if commit.changes_rows_only and not remote.adds_delete_files(self._context, head, commit):
            return False
        remote.swap(self._context, head, commit)
        return True

    def _create_staged(self, name: TableName, commit: TableCommit) -> None:
        from lakeward.formats.iceberg.requests import created
        from lakeward.write.branch.remote_creation import create_staged

        self._check_absent(name)
        create_staged(self._context, name, created(commit, str(name)))

    def _check_absent(self, name: TableName) -> None:
        with self._context.database.read() as session:
            if heads.find(session, name) is not None:
                what = f"The lake has a table {name} already."
                raise AlreadyExists(what, table=str(name))

    def _head(self, name: TableName) -> Head:
        head = current(self._context, name)
        if head.pointer is None:
            what = f"The Iceberg catalog of the lake has no table {name}."
            raise TableNotFound(what, hint="It is a table of another format.", table=str(name))
        return head

    def _heads(self) -> list[Head]:
        with self._context.database.read() as session:
            return [h for h in heads.all_heads(session) if h.pointer is not None]
