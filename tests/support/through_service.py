"""A lake whose writes are its own, and which is read by `lw.connect` through a service.

Names that are neither read by the client nor listed here as writes are errors, so that no test
reads past the client.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, Final, Self, cast

import pytest

import lakeward as lw
from lakeward.integrations.remote import RemoteLake, RemoteTable
from tests.support.service import Service

_OF_LAKES: Final = frozenset(
    {"adopt", "branch", "clone", "close", "drop", "label", "publish", "rename", "restore", "run"}
    | {"set_policy", "sink", "tag", "transaction", "undo", "undrop", "untag", "vacuum", "warehouse"}
)
"""What a lake does that no client does: writes, and where it is."""
_OF_TABLES: Final = frozenset(
    {"alter", "append", "checkpoint", "delete", "expire", "location", "merge", "optimize"}
    | {"overwrite", "restore", "update", "vacuum"}
)
_MAKING: Final = ("adopt", "clone", "rename")


class ReadThrough:
    """A lake that is written by itself and read through its service."""

    def __init__(self, lake: lw.Lake) -> None:
        self._stack = ExitStack()
        self._lake = self._stack.enter_context(lake)
        service = self._stack.enter_context(Service(lake, rate=1e6, burst=1e6))
        self._remote = lw.connect(service.url, token=lake.create_token().secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def create(self, *given: Any, **options: Any) -> lw.Table:
        """Create a table; it is read through the service."""
        return self._read(self._lake.create(*given, **options))

    def table(self, name: str) -> lw.Table:
        """Find a table; it is read through the service."""
        found = self._remote.table(name)
        return cast("lw.Table", TableThrough(self._lake.table(name), found))

    def sql(self, *given: Any, engine: str = "datafusion") -> Any:
        """Run a query on the service, which has one engine."""
        if engine != "datafusion":
            pytest.skip("the service runs queries with DataFusion")
        return self._remote.sql(*given)

    def __getattr__(self, name: str) -> Any:
        if name in _MAKING:
            make = getattr(self._lake, name)
            return lambda *given, **options: self._read(make(*given, **options))
        return getattr(_of(self, name, RemoteLake, _OF_LAKES, self._lake, self._remote), name)

    def _read(self, made: lw.Table) -> lw.Table:
        return cast("lw.Table", TableThrough(made, RemoteTable(self._remote._service, made.name)))


class TableThrough:
    """A table that is written by its lake and read through the service."""

    def __init__(self, own: lw.Table, remote: RemoteTable) -> None:
        self._own = own
        self._remote = remote

    def __getattr__(self, name: str) -> Any:
        return getattr(_of(self, name, RemoteTable, _OF_TABLES, self._own, self._remote), name)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._remote.__arrow_c_stream__(requested_schema)


def _of(this: Any, name: str, client: type, writes: frozenset[str], own: Any, remote: Any) -> Any:
    """What has this attribute: the thing itself for writes and private names, or its client."""
    if name.startswith("_") or name in writes:
        return own
    if hasattr(client, name) or name in vars(remote):
        return remote
    message = f"{type(this).__name__} has no {name}: the client does not have it"
    raise AttributeError(message)
