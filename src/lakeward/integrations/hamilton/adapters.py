"""Hamilton's data loaders and savers for tables of a lake, and their keys in its cache."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from typing import Any, cast

import pyarrow as pa
from hamilton import registry
from hamilton.caching import fingerprinting
from hamilton.io.data_adapters import DataLoader, DataSaver

from lakeward.errors import InvalidInput
from lakeward.integrations.hamilton.run import Target
from lakeward.read.snapshot import TableSnapshot


@dataclasses.dataclass
class LakeLoader(DataLoader):  # type: ignore[misc]  # Hamilton has no types
    """Loads a table at a version: `@load_from.lake(table=source("orders"))`.

    The input is a table at a version, `run.table("sales.orders")` or
    `lake.table("sales.orders").at()`. Hamilton's cache keys on that version.

    Attributes:
        table: The table at a version.
        columns: Names, in the order wanted; all when None.
        where: A SQL boolean expression; rows for which it is true are loaded.
    """

    table: TableSnapshot
    columns: list[str] | None = None
    where: str | None = None

    @classmethod
    def applicable_types(cls) -> Collection[type]:
        """Return the types as which nodes can load a table."""
        return _frames()

    @classmethod
    def name(cls) -> str:
        """Return the loader's name in `load_from` and `from_`."""
        return "lake"

    def load_data(self, type_: type) -> tuple[Any, dict[str, Any]]:
        """Return the rows as `type_`, and the table and version that they come from."""
        given: object = self.table
        if not isinstance(given, TableSnapshot):
            what = f"A loader takes a table at a version, not {type(given).__name__}."
            hint = 'Give run.table("…"), or lake.table("…").at(), as the input.'
            raise InvalidInput(what, hint=hint, parameter="table")
        options: dict[str, Any] = {"columns": self.columns, "where": self.where}
        source = {"table": given.name, "version": given.version}
        if type_ is pa.Table:
            return given.to_arrow(**options), source
        if type_.__module__.startswith("polars"):
            return given.to_polars(**options), source
        return given.to_pandas(**options), source


@dataclasses.dataclass
class LakeSaver(DataSaver):  # type: ignore[misc]  # Hamilton has no types
    """Saves rows in a run: `@save_to.lake(target=source("daily"), mode=value("overwrite"))`.

    The input is `run.target("gold.daily")`. The rows are committed when the run's block ends.

    Attributes:
        target: The table to write to.
        mode: As in `LakeRun.save`.
        on: As in `LakeRun.save`.
        where: As in `LakeRun.save`.
        format: As in `LakeRun.save`.
        schema_mode: As in `LakeRun.save`.
    """

    target: Target
    mode: str = "append"
    on: str | list[str] | None = None
    where: str | None = None
    format: str = "delta"
    schema_mode: str | None = None

    @classmethod
    def applicable_types(cls) -> Collection[type]:
        """Return the types of values that can be saved."""
        return _frames()

    @classmethod
    def name(cls) -> str:
        """Return the saver's name in `save_to` and `to`."""
        return "lake"

    def save_data(self, data: Any) -> dict[str, Any]:
        """Write the rows; return the table, the transaction, and how many rows were changed."""
        given: object = self.target
        if not isinstance(given, Target):
            what = f"A saver takes a target of a run, not {type(given).__name__}."
            hint = 'Write `with run(lake) as r:`, and give r.target("…") as the input.'
            raise InvalidInput(what, hint=hint, parameter="target")
        done = given.run.save(
            given.name,
            data,
            mode=self.mode,
            on=self.on,
            where=self.where,
            format=self.format,
            schema_mode=self.schema_mode,
        )
        return {
            "table": given.name,
            "transaction": given.run.transaction.transaction_id,
            "inserted": done.inserted,
            "updated": done.updated,
            "deleted": done.deleted,
        }


def register() -> None:
    """Register the adapters with Hamilton, and functions that compute keys with its cache."""
    registry.register_adapter(LakeLoader)
    registry.register_adapter(LakeSaver)
    fingerprinting.hash_value.register(TableSnapshot, _of_version)
    fingerprinting.hash_value.register(Target, _of_target)
    fingerprinting.hash_value.register(pa.Table, _of_rows)


def _frames() -> list[type]:
    found: list[type] = [cast(type, pa.Table)]
    for module, name in (("pandas", "DataFrame"), ("polars", "DataFrame")):
        try:
            found.append(getattr(__import__(module), name))
        except ImportError:
            continue
    return found


def _of_version(table: TableSnapshot, *args: Any, **options: Any) -> str:
    """Return the table's id, version and commit time; a rebuilt store may use a version again."""
    del args, options
    return f"lake:{table.log_head.uuid}@{table.version}@{table.timestamp_ms}"


def _of_target(target: Target, *args: Any, **options: Any) -> str:
    del args, options
    return f"lake:{target.name}@{target.run.transaction.transaction_id}"


def _of_rows(table: pa.Table, *args: Any, **options: Any) -> str:
    """Return a hash of the columns and all values, which does not depend on chunks."""
    del args, options
    found = hashlib.blake2b(digest_size=16)
    whole = table.combine_chunks()
    with pa.ipc.new_stream(_Hashing(found), whole.schema.remove_metadata()) as writer:
        writer.write_table(whole.replace_schema_metadata(None))
    return found.hexdigest()


class _Hashing:
    """A file object for Arrow that hashes the bytes written to it, and keeps nothing else."""

    closed = False

    def __init__(self, found: Any) -> None:
        self._found = found

    def write(self, data: Any) -> int:
        self._found.update(data)
        return len(data)

    def flush(self) -> None:
        return None

    def tell(self) -> int:
        return 0

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        return None
