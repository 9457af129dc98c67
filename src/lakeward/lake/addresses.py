"""The address of a lake: store, warehouse and options, with which other processes open it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from lakeward.context import LakeContext
from lakeward.lake.opening import opened


@dataclass(frozen=True, slots=True)
class Address:
    """A store, a warehouse and the options to access the warehouse; it can be pickled.

    It contains credentials: keep the pickle secret.

    Attributes:
        target: The store: a directory, or the URL of a database.
        warehouse: Where the tables' files are.
        storage_options: As `lakeward.open` takes them.
    """

    target: str = field(repr=False)
    warehouse: str
    storage_options: tuple[tuple[str, str], ...] = field(default=(), repr=False)


def address_of(
    target: str | Path, storage_options: dict[str, str], context: LakeContext
) -> Address:
    """Return the address of a lake that was opened with these arguments."""
    text = str(target)
    if "://" not in text or text.startswith("file://"):
        text = str(Path(text.removeprefix("file://")).expanduser().absolute())
    return Address(text, context.storage.root, tuple(sorted(storage_options.items())))


@contextmanager
def opened_at(address: Address) -> Iterator[LakeContext]:
    """Open a lake read-only; yield its context, and close its store at the end."""
    context = _opened(address, read_only=True)
    with closing(context.database):
        yield context


@lru_cache(maxsize=8)
def kept_open(address: Address) -> LakeContext:
    """Open a lake once in this process, for writing where this user may write; it stays open."""
    return _opened(address, read_only=None)


def _opened(address: Address, *, read_only: bool | None) -> LakeContext:
    """Open a lake without creating or repairing anything; return its context."""
    return opened(
        address.target,
        address.warehouse,
        dict(address.storage_options),
        create=False,
        actor=None,
        merge_memory=None,
        take_over=False,
        repair=False,
        read_only=read_only,
    )
