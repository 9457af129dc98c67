"""The public surface: a sorted list of names, and signatures that keep the design's contract."""

from __future__ import annotations

import importlib
import importlib.metadata
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import lakeward as lw
from tests.docs.api_page import PAGE, members


def test_the_public_names_are_exactly_the_sorted_list() -> None:
    assert lw.__all__ == sorted(lw.__all__)
    assert [name for name in dir(lw) if not name.startswith("__")] == lw.__all__


@pytest.mark.parametrize("name", lw.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    found = getattr(lw, name)

    assert found is getattr(importlib.import_module("lakeward"), name)
    assert inspect.getdoc(found)


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nonsense"):
        lw.nonsense  # noqa: B018


def test_the_version_is_that_of_the_installed_package() -> None:
    assert lw.__version__ == importlib.metadata.version("lakeward")
    assert "__version__" in dir(lw)


def test_every_public_method_is_documented() -> None:
    undocumented = [
        f"{owner.__name__}.{name}"
        for owner in (
            lw.Lake,
            lw.Table,
            lw.Transaction,
            lw.CommitResult,
            lw.Retry,
            lw.LastWriterWins,
            lw.Collision,
            lw.StagedCommit,
        )
        for name, member in members(owner).items()
        if not name.startswith("_")
        and (callable(member) or isinstance(member, property))
        and not inspect.getdoc(member)
    ]

    assert undocumented == []


class _Lake:
    """The lake as the design has it; `self` stands first, as in methods."""

    def create(
        self,
        name: str,
        schema: Any = None,
        *,
        format: str = "delta",  # noqa: A002
        partition_by: Any = (),
        properties: Any = None,
        policy: Any = None,
        guard: bool = True,
    ) -> Any: ...
    def adopt(self, name: str, location: Any, *, guard: bool = True) -> Any: ...
    def table(self, name: str) -> Any: ...
    def tables(self) -> Any: ...
    def drop(self, name: str) -> Any: ...
    def transaction(
        self, *, isolation: str = "snapshot", spark: Any = None, message: str | None = None
    ) -> Any: ...
    def run(self, fn: Any, *, retry: Any = None) -> Any: ...
    def snapshot(self, *, at: Any = None) -> Any: ...
    def on(self, event: str, fn: Any = None) -> Any: ...
    def sink(self, name: str, *, mode: str = "append", key: Any = None, writer_id: str) -> Any: ...


class _Transaction:
    def append(self, name: str, data: Any) -> Any: ...
    def overwrite(self, name: str, data: Any, *, where: str | None = None) -> Any: ...
    def delete(self, name: str, *, where: str) -> Any: ...
    def read(self, name: str) -> Any: ...
    def commit(self) -> Any: ...
    def rollback(self) -> Any: ...


class _Table:
    def history(self, *, limit: int | None = None) -> Any: ...
    def files(self, *, where: str | None = None) -> Any: ...
    def to_arrow(self, *, columns: Any = None, where: str | None = None) -> Any: ...
    def at(self, *, version: Any = None, timestamp: Any = None, tag: Any = None) -> Any: ...
    def versions(self, *, since: Any = None, until: Any = None) -> Any: ...
    def diff(self, a: int, b: int) -> Any: ...
    def to_pandas(self) -> Any: ...
    def to_polars(self) -> Any: ...
    def head(self, n: int = 5) -> Any: ...
    def count(self, where: str | None = None) -> Any: ...


def _open(target: Any, *, warehouse: Any = None, storage_options: Any = None) -> Any: ...


def _methods(contract: type, owner: type) -> list[Any]:
    return [
        pytest.param(expected, getattr(owner, name, None), id=f"{owner.__name__}.{name}")
        for name, expected in vars(contract).items()
        if inspect.isfunction(expected)
    ]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        pytest.param(_open, lw.open, id="open"),
        *_methods(_Lake, lw.Lake),
        *_methods(_Transaction, lw.Transaction),
        *_methods(_Table, lw.Table),
    ],
)
def test_signatures_keep_the_contract(
    expected: Callable[..., Any], found: Callable[..., Any] | None
) -> None:
    """What was promised is there as promised; what is new can only be given by name."""
    assert found is not None
    promised = inspect.signature(expected).parameters
    real = inspect.signature(found).parameters
    for name, parameter in promised.items():
        assert name in real
        assert real[name].kind is parameter.kind
        if name != "target":
            assert real[name].default == parameter.default
    for name in real.keys() - promised.keys():
        assert real[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert real[name].default is not inspect.Parameter.empty
    assert [n for n, p in promised.items() if p.kind is p.POSITIONAL_OR_KEYWORD] == [
        n for n, p in real.items() if p.kind is p.POSITIONAL_OR_KEYWORD
    ]


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (lw.Table, ["version", "schema", "location", "format"]),
        (lw.CommitResult, ["transaction_id", "versions"]),
        (lw.CommitEvent, ["transaction_id", "versions", "timestamp", "operations", "published"]),
        (lw.Transaction, ["is_open", "result"]),
    ],
)
def test_properties_keep_the_contract(owner: type, names: list[str]) -> None:
    for name in names:
        assert hasattr(owner, name), name


@pytest.mark.parametrize(
    "name",
    [n for n, m in vars(lw.AsyncTransaction).items() if inspect.iscoroutinefunction(m)],
)
def test_what_is_awaited_takes_what_the_transaction_takes(name: str) -> None:
    if name.startswith("_") or name == "alter":
        return
    own = inspect.signature(getattr(lw.AsyncTransaction, name)).parameters.values()
    theirs = inspect.signature(getattr(lw.Transaction, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in own] == [
        (p.name, p.kind, p.default) for p in theirs
    ]


def test_completion_offers_only_what_the_documentation_has(tmp_path: Any) -> None:
    page = PAGE.read_text()
    with lw.open(tmp_path) as lake, lake.transaction() as tx, lake.snapshot() as cut:
        table = lake.create("t", {"id": "int64"})
        branch = lake.branch("b", tables=["t"])
        for thing in (lake, tx, cut, table, table.at(), branch, branch.table("t")):
            kind = type(thing).__name__
            offered = dir(thing)
            told = [n for n in offered if f"{kind}.{n}" in page or f"- `{n}`:" in page]
            assert offered
            assert offered == told
            assert not any(n.startswith("_") for n in offered)
            assert [n for n in offered if n != "spark" and not hasattr(thing, n)] == []


def test_what_a_snapshot_and_a_version_tell(tmp_path: Any) -> None:
    with lw.open(tmp_path) as lake:
        table = lake.create("t", {"id": "int64"})
        snapshot, newest = table.at(), table.history()[0]
        for name in ("version", "timestamp", "schema", "files", "to_arrow"):
            assert hasattr(snapshot, name), name
        for name in ("version", "transaction_id", "operation", "timestamp"):
            assert hasattr(newest, name), name
        with lake.snapshot() as cut:
            assert cut.table("t").to_arrow().num_rows == 0
