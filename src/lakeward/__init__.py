"""Lakeward: the transaction log of your Delta and Iceberg tables in a database.

::

    import lakeward as lw

    lake = lw.open("./lake")
    lake.create("sales.orders", {"id": "int64", "amount": "double"})
    with lake.transaction() as tx:
        tx.append("sales.orders", [{"id": 1, "amount": 9.5}])
    print(lake.table("sales.orders").to_arrow())
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeward import errors as errors

if TYPE_CHECKING:
    __version__: str
    """The version of the installed package."""

    from lakeward.integrations.remote import RemoteLake
    from lakeward.lake.lake import Lake
    from lakeward.lake.moving import relocate
    from lakeward.lake.table import Table
    from lakeward.model.addressed import Files
    from lakeward.model.cache import Cache
    from lakeward.model.constraints import Check, ForeignKey, NotNull, Unique
    from lakeward.model.events import CommitEvent
    from lakeward.model.expressions.when import When
    from lakeward.model.policy.policy import Policy
    from lakeward.write.plan.change import RowChanges
    from lakeward.write.plan.retry import Retry
    from lakeward.write.transaction.aio import AsyncTransaction
    from lakeward.write.transaction.hooks import StagedCommit
    from lakeward.write.transaction.result import CommitResult
    from lakeward.write.transaction.strategy import Collision, LastWriterWins, Replace
    from lakeward.write.transaction.transaction import Transaction

__all__ = [
    "AsyncTransaction",
    "Cache",
    "Check",
    "Collision",
    "CommitEvent",
    "CommitResult",
    "Files",
    "ForeignKey",
    "Lake",
    "LastWriterWins",
    "NotNull",
    "Policy",
    "Replace",
    "Retry",
    "RowChanges",
    "StagedCommit",
    "Table",
    "Transaction",
    "Unique",
    "When",
    "connect",
    "errors",
    "open",
    "relocate",
]

_HOMES = {
    "AsyncTransaction": "lakeward.write.transaction.aio",
    "Cache": "lakeward.model.cache",
    "Check": "lakeward.model.constraints",
    "Collision": "lakeward.write.transaction.strategy",
    "CommitEvent": "lakeward.model.events",
    "CommitResult": "lakeward.write.transaction.result",
    "Files": "lakeward.model.addressed",
    "ForeignKey": "lakeward.model.constraints",
    "Lake": "lakeward.lake.lake",
    "LastWriterWins": "lakeward.write.transaction.strategy",
    "NotNull": "lakeward.model.constraints",
    "Policy": "lakeward.model.policy.policy",
    "Replace": "lakeward.write.transaction.strategy",
    "Retry": "lakeward.write.plan.retry",
    "RowChanges": "lakeward.write.plan.change",
    "StagedCommit": "lakeward.write.transaction.hooks",
    "Table": "lakeward.lake.table",
    "Transaction": "lakeward.write.transaction.transaction",
    "Unique": "lakeward.model.constraints",
    "When": "lakeward.model.expressions.when",
    "relocate": "lakeward.lake.moving",
}


def open(  # noqa: A001  `lakeward.open` is the name users see
    target: str | Path = "./lake",
    *,
    warehouse: str | Path | None = None,
    storage_options: Mapping[str, str] | None = None,
    create: bool = True,
    repair: bool = True,
    actor: str | None = None,
    merge_memory: int | None = None,
    take_over: bool = False,
    read_only: bool | None = None,
    cache: Cache | bool | None = None,
) -> Lake:
    """Open a lake, making it when it is missing.

    Commits of earlier processes that are not published are published first, unless `repair` is
    False.

    Args:
        target: A directory (SQLite inside it), or a `postgresql://` URL.
        warehouse: Directory or URL of the tables' files. It is required when the lake is created,
            unless the files shall be in the target's directory. The store records it; to open
            the lake with another warehouse raises `WrongWarehouse`.
        storage_options: Options to access a warehouse on an object store, by the names that its
            provider's tools use (`AWS_ENDPOINT_URL`, …). Missing options are looked up in the
            environment, then in AWS profiles.
        create: Create a lake if there is none. With False a missing lake raises `LakeNotFound`,
            which names the nearest lake that exists: a typo creates no lake.
        repair: Publish commits whose files are missing, and roll back transactions of dead
            processes.
        actor: Who works with the lake; the login name and host unless said otherwise.
        merge_memory: How many bytes the data of a merge may take in memory, with the index of its
            keys; larger data is kept in a temporary file. Unless given, the value of
            `LAKEWARD_MERGE_MEMORY` in the environment, or else a quarter of the machine's memory.
        take_over: Make a new store for a warehouse whose store is lost; then call `rebuild` or
            `import_store`. The lost store is refused from then on.
        read_only: Write nothing: no repair, no lease, no commit; every write raises
            `ReadOnlyLake`. Unless given, the lake is opened read-only where this user cannot write
            the store (no permission, a read-only file system, a role without rights, a standby).
            With False such a store is an error.
        cache: How much of the data files of an object store is cached locally: a `lakeward.Cache`,
            or False for nothing. Unless given, 128 MiB in memory. `lake.counters()` has the hits
            and misses.

    Raises:
        LakeNotFound: There is no lake, and `create` is False.
        WrongWarehouse: The store and the warehouse do not belong together. Nothing was written.
    """
    from lakeward.lake.lake import Lake

    return Lake(
        target,
        warehouse=warehouse,
        storage_options=storage_options,
        create=create,
        repair=repair,
        actor=actor,
        merge_memory=merge_memory,
        take_over=take_over,
        read_only=read_only,
        cache=cache,
    )


def connect(address: str, *, token: str | None = None, timeout: float = 60.0) -> RemoteLake:
    """Connect to a lake through its service (`lakeward serve`), for reading.

    Args:
        address: The address of the service, such as `https://lake.example.org`.
        token: An access token, from `lakeward token create`; None if the service needs none.
        timeout: Seconds to wait for an answer.

    Raises:
        InvalidInput: The address is not a valid URL of a service, or the token has spaces, line
            breaks or characters other than ASCII.
    """
    from lakeward.integrations.remote import RemoteLake

    return RemoteLake(address, token=token, timeout=timeout)


def __dir__() -> list[str]:
    """Return the public names of the package."""
    return [*__all__, "__version__"]


def __getattr__(name: str) -> Any:
    """Load heavy modules when one of their names is first used."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("lakeward")
        except PackageNotFoundError:
            return "unknown"
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    message = f"module 'lakeward' has no attribute {name!r}"
    raise AttributeError(message)
