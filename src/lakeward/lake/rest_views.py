"""The operations of the Iceberg REST catalog on views."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.log import views
from lakeward.model.names import TableName
from lakeward.write.commit.once import described


class RestViews:
    """The part of the catalog for views. The lake stores their SQL, and does not run it."""

    _context: LakeContext

    def views(self, namespace: str) -> list[TableName]:
        """Return the views of a namespace, by name."""
        with self._context.database.read() as session:
            found = views.every(session)
        return [TableName(n, name) for n, name in found if n == namespace]

    def has_view(self, name: TableName) -> bool:
        """Return whether there is a view of this name."""
        with self._context.database.read() as session:
            return views.pointer(session, name) is not None

    def load_view(self, name: TableName) -> dict[str, Any]:
        """Return a view's metadata and its location, in the form of the protocol.

        Raises:
            NotFound: There is no such view.
        """
        from lakeward.write.tables.views import load_view

        place, document = load_view(self._context, name)
        return {"metadata-location": place, "metadata": document}

    def create_view(self, namespace: str, body: Any, key: str | None = None) -> TableName:
        """Create a view from the request of a client; return its name.

        Raises:
            AlreadyExists: There is a table or a view of this name.
        """
        from lakeward.formats.iceberg.views import created
        from lakeward.write.branch.remote_creation import new_place
        from lakeward.write.tables.views import create_view

        self._context.database.check_writable()
        name = TableName.parse(f"{namespace}.{body.get('name')}")
        place = self._context.storage.uri(new_place(name))
        what = described(f"create view {name}", body)
        create_view(self._context, name, created(body, place), key, what)
        return name

    def commit_view(self, name: TableName, body: Any, key: str | None = None) -> None:
        """Apply the updates of a client to a view.

        Raises:
            Conflict: The view does not meet the requirements of the request.
        """
        from lakeward.formats.iceberg.views import changed, check_requirements
        from lakeward.write.tables.views import replace_view

        self._context.database.check_writable()

        def change(document: Mapping[str, Any]) -> dict[str, Any]:
            check_requirements(document, body.get("requirements"), str(name))
            return changed(document, body.get("updates"))

        what = described(f"replace view {name}", body)
        replace_view(self._context, name, change, key, what)

    def register_view(self, namespace: str, body: Any, key: str | None = None) -> TableName:
        """Create a view from an existing metadata file; return its name."""
        from lakeward.formats.iceberg.metadata import reader
        from lakeward.formats.iceberg.views import parse
        from lakeward.write.branch.remote_creation import new_place
        from lakeward.write.tables.views import create_view

        self._context.database.check_writable()
        name = TableName.parse(f"{namespace}.{body.get('name')}")
        place = body.get("metadata-location")
        if not isinstance(place, str) or not place.endswith(".metadata.json"):
            raise InvalidInput("The request names no metadata file.")  # noqa: EM101
        document = parse(place, reader(self._context)(place))
        document["location"] = self._context.storage.uri(new_place(name))
        what = described(f"register view {name}", body)
        create_view(self._context, name, document, key, what)
        return name

    def rename_view(self, old: TableName, new: TableName, key: str | None = None) -> None:
        """Rename a view; repeated calls with the same `key` rename it once."""
        from lakeward.write.tables.views import rename_view

        self._context.database.check_writable()
        rename_view(self._context, old, new, key)

    def drop_view(self, name: TableName, key: str | None = None) -> None:
        """Drop a view; repeated calls with the same `key` drop it once."""
        from lakeward.write.tables.views import drop_view

        self._context.database.check_writable()
        drop_view(self._context, name, key)
