"""The operations of the Iceberg REST catalog, by which other engines use the lake over HTTP.

Every commit of an engine becomes a commit of the lake. A commit of rows, to one or several tables,
is one transaction; a commit of a table's definition is recorded as the engine wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, InvalidInput, TableNotFound
from lakeward.formats.iceberg.requests import TableCommit
from lakeward.formats.iceberg.requests import is_staged as is_staged
from lakeward.formats.iceberg.requests import parse_commit as parse_commit
from lakeward.lake.keyed import register_keyed
from lakeward.lake.rest_namespaces import RestNamespaces
from lakeward.lake.rest_signing import RestSigning
from lakeward.lake.rest_views import RestViews
from lakeward.lake.transactions import Transactions
from lakeward.log import catalog, heads, onces, transactions
from lakeward.log.database import Session
from lakeward.model.commit import Head, TransactionState
from lakeward.model.names import TableName
from lakeward.model.namespaces import DEFAULT, joined
from lakeward.write.commit.once import described, is_first, used_otherwise, was_made
from lakeward.write.commit.publications import current

if TYPE_CHECKING:
    from lakeward.formats.iceberg.document import Document
    from lakeward.write.transaction.lifecycle import CommitResult
    from lakeward.write.transaction.transaction import Transaction


class RestCatalog(RestNamespaces, RestViews, RestSigning):
    """Implements the operations of the Iceberg REST protocol for the lake's Iceberg tables."""

    def __init__(self, context: LakeContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    def tables(self, namespace: str) -> list[TableName]:
        """Return the Iceberg tables of a namespace, by name."""
        with self._context.database.read() as session:
            found = [h.name for h in heads.all_heads(session) if h.pointer is not None]
        return [name for name in found if catalog.identifier(name)[0] == namespace]

    def name_of(self, namespace: Sequence[str], name: str) -> TableName:
        """Return the lake's name of a table; `default` has the tables without a namespace."""
        full = f"{joined(namespace)}.{name}"
        if tuple(namespace) == (DEFAULT,):
            plain = TableName.parse(name)
            with self._context.database.read() as session:
                if heads.find(session, plain) is not None:
                    return plain
        return TableName.parse(full)

    def load(self, name: TableName, *, refs_only: bool = False) -> dict[str, Any]:
        """Return a table's metadata and its location, in the form of the protocol.

        Args:
            name: The table.
            refs_only: Leave out snapshots that no branch and no tag refers to.

        Raises:
            TableNotFound: There is no such table, or it is no Iceberg table.
        """
        from lakeward.formats.iceberg.metadata import document_of

        document = document_of(self._context, self._head(name))
        if refs_only:
            document = document.with_referred_snapshots()
        return {
            "metadata-location": document.location,
            "metadata": orjson.Fragment(document.encode()),
            "config": {},
        }

    def plan(self, name: TableName, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the files that a scan of a table reads, in the form of the protocol.

        Raises:
            TableNotFound: There is no such table, or it is no Iceberg table.
            InvalidInput: The request is wrong, or the table has no such snapshot.
            UnsupportedFeature: The log cannot answer this exactly.
        """
        from lakeward.lake.rest_scans import planned

        return planned(self._context, self._head(name), body)

    def stage(self, namespace: str, body: Any) -> dict[str, Any]:
        """Return the metadata of a table that a client will create by a commit; store nothing."""
        from lakeward.formats.iceberg.requests import staged_document
        from lakeward.write.branch.remote_creation import new_place

        name = TableName.parse(f"{namespace}.{body.get('name')}")
        self._check_absent(name)
        place = self._context.storage.uri(new_place(name))
        return {"metadata": orjson.Fragment(staged_document(body, place).encode()), "config": {}}

    def register(self, namespace: str, body: Any, key: str | None = None) -> TableName:
        """Adopt the table of a metadata file into the lake; return its name.

        If `key` is given, repeated calls with the same key adopt the table once.
        """
        from lakeward.write.tables.adopt import adopt

        self._context.database.check_writable()
        name = TableName.parse(f"{namespace}.{body.get('name')}")
        place = body.get("metadata-location")
        if not isinstance(place, str) or not place.endswith(".metadata.json"):
            raise InvalidInput("The request names no metadata file.")  # noqa: EM101
        what = described(f"register {name}", body)
        if self._was_done(key, what):
            return name
        self._check_absent(name)

        def note(session: Session) -> None:
            is_first(self._context, session, key, what)

        adopt(
            self._context,
            name,
            place,
            guard=True,
            format="iceberg",
            take_over=self._was_dropped_at(place),
            note=note,
        )
        return name

    def _was_dropped_at(self, place: str) -> bool:
        """Return whether a metadata file belongs to a table that was dropped from this lake."""
        path = self._context.storage.path_of
        directory = path(place).rpartition("/")[0].rpartition("/")[0]
        with self._context.database.read() as session:
            gone = [head for head, _ in heads.dropped(session)]
            is_live = any(
                path(self._context.storage.uri(head.location)) == directory
                for head in heads.all_heads(session)
            )
        places = {path(self._context.storage.uri(head.location)) for head in gone}
        return directory in places and not is_live

    def create(self, namespace: str, body: Any, key: str | None = None) -> TableName:
        """Create an empty table from the request of a client; return its name.

        If `key` is given, repeated calls with the same key create the table once.
        """
        from lakeward.formats.iceberg.requests import staged_document
        from lakeward.write.branch.remote_creation import create_empty, new_place

        self._context.database.check_writable()
        name = TableName.parse(f"{namespace}.{body.get('name')}")
        what = described(f"create {name}", body)
        if self._was_done(key, what):
            return name
        self._check_absent(name)
        place = self._context.storage.uri(new_place(name))
        create_empty(self._context, name, staged_document(body, place), key, what)
        return name

    def rename(self, old: TableName, new: TableName, key: str | None = None) -> None:
        """Rename a table; repeated calls with the same `key` rename it once."""
        from lakeward.write.tables.rename import rename

        self._context.database.check_writable()
        if not self._was_renamed(key, f"rename {old} to {new}"):
            self._head(old)
            rename(self._context, old, new, key)

    def drop(self, name: TableName, key: str | None = None) -> None:
        """Drop a table, once for the same `key`; its files stay until they are vacuumed."""
        from lakeward.write.tables.create import drop

        self._context.database.check_writable()
        if not self._was_done(key, f"drop {name}"):
            self._head(name)
            drop(self._context, name, key)

    def commit(
        self,
        commits: Sequence[TableCommit],
        *,
        transaction_id: str | None = None,
        trusted: bool = False,
    ) -> CommitResult | None:
        """Commit changes of one or several tables, all of them or none.

        Return None if the same id was used for a commit that made no version.

        Args:
            commits: One commit for each table.
            transaction_id: An id that the client chose; calls with the same id commit once. It
                belongs to this commit and this actor.
            trusted: Whether the client may add data files outside of the table's directory.

        Raises:
            Conflict: A table is not as its commit requires; nothing was committed.
            InvalidInput: The id was used for another change, or by another actor.
            AlreadyExists: A table that the commit creates exists already.
            UnsupportedFeature: The lake cannot check a commit; see `swap`.
        """
        self._context.database.check_writable()
        wanted = [(self.name_of(c.namespace, c.name), c) for c in commits]
        if len({name for name, _ in wanted}) != len(wanted):
            raise InvalidInput("A table is named twice in one commit.")  # noqa: EM101
        what = described("commit", *map(asdict, commits))
        was_done = self._was_done(transaction_id, what)
        begun = self._transactions.begin(
            isolation="snapshot", message=None, transaction_id=transaction_id
        )
        if begun._is_replay():
            done: CommitResult | None = begun.commit()
        elif was_done:
            return None
        else:
            done = self._commit(begun, wanted, transaction_id, what, trusted=trusted)
        # Another request with this key may have been committed meanwhile.
        self._was_done(transaction_id, what)
        return done

    def _commit(
        self,
        begun: Transaction,
        wanted: Sequence[tuple[TableName, TableCommit]],
        key: str | None,
        what: str,
        *,
        trusted: bool,
    ) -> CommitResult:
        """Commit changes of tables; record `what` was asked if the client chose a key."""
        from lakeward.write.branch import remote
        from lakeward.write.branch.remote_swap import swap

        asked = [
            remote.compare(self._context, self._head(name), commit, trusted=trusted)
            for name, commit in wanted
            if not commit.creates
        ]
        new = [(name, self._first_document(name, c)) for name, c in wanted if c.creates]
        if new or any(one.as_written for one in asked):
            return swap(self._context, begun.transaction_id, asked, what, trusted=trusted, new=new)
        with begun as tx:
            if key is not None:
                register_keyed(self._context, tx, key, what)
            for one in asked:
                remote.stage(self._context, tx, one)
        return tx.commit()

    def _first_document(self, name: TableName, commit: TableCommit) -> Document:
        """Return the first document of a table that a commit creates, if the name is free."""
        from lakeward.formats.iceberg.requests import created

        with self._context.database.read() as session:
            if heads.find(session, name) is not None:
                failed = f"Requirement failed: table already exists: {name}"
                raise AlreadyExists(failed)
        self._check_absent(name)
        return created(commit, str(name))

    def _was_renamed(self, key: str | None, what: str) -> bool:
        """Return whether the rename `what` was committed with this idempotency key.

        False without a key.

        Raises:
            InvalidInput: The key was used for another change, or by another actor.
        """
        if key is None:
            return False
        with self._context.database.read() as session:
            found = transactions.get(session, key)
            if onces.find(session, key) is not None:
                raise used_otherwise()
        if found is None or found.state is not TransactionState.RATIFIED:
            return False
        if (found.message, found.actor) != (what, self._context.actor):
            raise used_otherwise()
        return True

    def _was_done(self, key: str | None, what: str) -> bool:
        """Return whether a change was made before with this key; False without a key.

        Raises:
            InvalidInput: The key was used for another change, or by another actor.
        """
        if key is None:
            return False
        with self._context.database.read() as session:
            return was_made(self._context, session, key, what)

    def _check_absent(self, name: TableName) -> None:
        with self._context.database.read() as session:
            if heads.find(session, name) is not None:
                what = f"The lake has a table {name} already."
                raise AlreadyExists(what, table=str(name))
        if self.has_view(name):
            raise AlreadyExists(f"View with same name already exists: {name}.")  # noqa: EM102

    def _head(self, name: TableName) -> Head:
        head = current(self._context, name)
        if head.pointer is None:
            what = f"The Iceberg catalog of the lake has no table {name}."
            raise TableNotFound(what, hint="It is a table of another format.", table=str(name))
        return head
