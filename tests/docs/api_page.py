"""Writes `docs/python-api.md` from signatures and docstrings: `python -m tests.docs.api_page`."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import lakeward as lw
from lakeward.lake.aio import AsyncLake
from lakeward.lake.altering import TableAlter
from lakeward.lake.branch import Branch, BranchInfo, BranchTable, BranchTableInfo
from lakeward.lake.snapshot import Cut, CutTable, LakeSnapshot
from lakeward.log.audit import AuditEntry
from lakeward.maintain.backup import StoreCopy
from lakeward.maintain.doctor import Finding, Mended, Report, Severity
from lakeward.maintain.rebuild import Incomplete, Rebuilt
from lakeward.maintain.relocate import Relocated
from lakeward.model.commit import Isolation, TransactionState
from lakeward.model.definition import Definition
from lakeward.model.events import (
    ConflictEvent,
    FailedEvent,
    PipelineEvent,
    PublishedEvent,
    ViolationEvent,
)
from lakeward.model.file import LoggedFile
from lakeward.model.locks import LockMode, LockWait, TableLock
from lakeward.model.schema import Schema
from lakeward.model.types import Field
from lakeward.read.aio import AsyncRows
from lakeward.read.definition_diff import PropertyChange, SchemaChange
from lakeward.read.describe import ColumnInfo, Page, PageColumn, TableDetails, TableInfo, Totals
from lakeward.read.diff import Diff, FileInfo, FilePage, FileSums, PartitionChange
from lakeward.read.history import Stats, TransactionRecord, Version
from lakeward.read.runs import RunRecord
from lakeward.read.schemas import SchemaVersion
from lakeward.read.snapshot import TableSnapshot
from lakeward.stream.consume import Consumed
from lakeward.stream.epoch import EpochResult
from lakeward.stream.queue import SinkMetrics
from lakeward.stream.sink import AsyncSink, AsyncSinkGroup, Sink, SinkGroup
from lakeward.write.alter.builder import Alter
from lakeward.write.branch.named import BranchDiff
from lakeward.write.commit.outcome import Outcome
from lakeward.write.transaction.hooks import Hooks, StagedTable
from tests.docs.pages import ROOT

PAGE: Final = ROOT / "docs" / "python-api.md"
_INTRODUCTION: Final = """\
# Python API

Everything that a program calls. `import lakeward as lw` brings `lw.open` and the classes of the \
first part; the others are what their methods return. Errors are on a [page](errors.md) of their \
own. This page is made from the code by `python -m tests.docs.api_page`, and a test holds it to it.
"""
_PARTS: Final[dict[str, tuple[Any, ...]]] = {
    "What you begin with": (lw.Lake, lw.Table, lw.Transaction, lw.CommitResult, lw.Retry),
    "Altering tables": (Alter, TableAlter, SchemaVersion),
    "In an event loop": (lw.AsyncTransaction, AsyncRows, AsyncLake),
    "Branches": (Branch, BranchTable, BranchDiff, BranchInfo, BranchTableInfo),
    "Streams": (Sink, SinkGroup, AsyncSink, AsyncSinkGroup, EpochResult, SinkMetrics, Consumed),
    "Conflicts, hooks and events": (
        lw.LastWriterWins,
        lw.Collision,
        lw.Replace,
        Hooks,
        lw.StagedCommit,
        StagedTable,
        lw.CommitEvent,
        PublishedEvent,
        ConflictEvent,
        FailedEvent,
        ViolationEvent,
        PipelineEvent,
    ),
    "Reading": (
        TableSnapshot,
        LakeSnapshot,
        Cut,
        CutTable,
        TableInfo,
        TableDetails,
        ColumnInfo,
        Page,
        PageColumn,
        Totals,
        LoggedFile,
        Schema,
        Field,
        Definition,
    ),
    "History": (
        Version,
        Diff,
        SchemaChange,
        PropertyChange,
        PartitionChange,
        FileInfo,
        FilePage,
        FileSums,
        AuditEntry,
        RunRecord,
    ),
    "Outcomes": (Outcome, TransactionState, Isolation, TransactionRecord),
    "Locks": (TableLock, LockWait, LockMode),
    "Operations": (
        Report,
        Finding,
        Severity,
        Mended,
        StoreCopy,
        Rebuilt,
        Incomplete,
        Relocated,
        Stats,
    ),
}
_SECTION: Final = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")
# How a class is used, where it is not by calling it.
_GIVEN: Final = (
    lw.AsyncTransaction,
    AsyncLake,
    AsyncRows,
    lw.Lake,
    lw.Table,
    lw.Transaction,
    Alter,
    TableAlter,
    Branch,
    BranchTable,
    Hooks,
    Sink,
    SinkGroup,
    AsyncSink,
    AsyncSinkGroup,
    TableSnapshot,
    LakeSnapshot,
)
# Members that serve the lake's own layers.
_INTERNAL: Final = frozenset({"apply", "parts", "to_json", "from_json"}).union(
    *(kind._internal for kind in (lw.Transaction, TableSnapshot))
)


def render() -> str:
    """The page."""
    lines = [_INTRODUCTION, "## Opening a lake\n", *_callable("lw.open", lw.open, 3)]
    for title, kinds in _PARTS.items():
        lines.append(f"## {title}\n")
        for kind in kinds:
            lines.extend(_class(kind))
    return "\n".join(lines).rstrip() + "\n"


def _class(kind: Any) -> Iterator[str]:
    yield f"### {kind.__name__}\n"
    if kind not in _GIVEN and not issubclass(kind, str):
        yield f"```text\n{_signature(kind.__name__, kind)}\n```\n"
    yield from _docstring(kind)
    if issubclass(kind, str):
        yield "".join(f"- `{member.value}`\n" for member in kind)
        return
    for name, member in members(kind).items():
        if name.startswith("_") or name in _INTERNAL:
            continue
        if isinstance(member, property) or hasattr(member, "attrname"):
            function: Any = member.fget if isinstance(member, property) else member.func
            returned = _plain(inspect.signature(function).return_annotation)
            yield f"#### {kind.__name__}.{name}\n\n`{returned}`. {_first(function)}\n"
        elif inspect.isfunction(member):
            yield from _callable(f"{kind.__name__}.{name}", member, 4)


def members(kind: type) -> dict[str, Any]:
    """What a class and those of its bases that are ours define; what comes later wins."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("lakeward")]
    return {name: member for base in reversed(own) for name, member in vars(base).items()}


def _callable(name: str, function: Any, level: int) -> Iterator[str]:
    yield f"{'#' * level} {name}\n"
    yield f"```text\n{_signature(name, function)}\n```\n"
    yield from _docstring(function)


def _signature(name: str, source: Any) -> str:
    """A call on one line, or on one line per parameter where it is long."""
    signature = inspect.signature(source)
    hidden = {"self"} | {f.name for f in _fields(source) if f.name.startswith("_")}
    own = [p for p in signature.parameters.values() if p.name not in hidden]
    shown: list[str] = []
    for parameter in own:
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(_parameter(parameter))
    returned = signature.return_annotation
    tail = "" if returned in (inspect.Signature.empty, "None", None) else f" -> {_plain(returned)}"
    line = f"{name}({', '.join(shown)}){tail}"
    if len(line) <= 96:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in shown), f"){tail}"])


def _parameter(source: inspect.Parameter) -> str:
    text = f"{source.name}: {_plain(source.annotation)}"
    if source.default is inspect.Parameter.empty:
        return text
    made = type(source.default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS"
    return f"{text} = {'…' if made else repr(source.default)}"


def _fields(source: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(source) if dataclasses.is_dataclass(source) else ()


def _plain(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return text or str(annotation)


def _first(source: Any) -> str:
    return (inspect.getdoc(source) or "").split("\n\n")[0].replace("\n", " ")


def _docstring(source: Any) -> Iterator[str]:
    """A Google docstring as Markdown: prose as it is, sections as lists."""
    text = inspect.getdoc(source) or ""
    if text.startswith(f"{getattr(source, '__name__', '')}("):
        return  # what dataclasses write where nobody wrote anything
    prose: list[str] = []
    lines = text.splitlines()
    while lines:
        line = lines.pop(0)
        section = _SECTION.match(line)
        if section is None:
            prose.append(line)
            continue
        items = _items(lines)
        yield from _paragraphs(prose)
        prose = []
        if section[1] == "Raises":
            yield "Raises:\n"
        yield "".join(f"- `{name}`: {said}\n" for name, said in items)
    yield from _paragraphs(prose)


def _items(lines: list[str]) -> list[tuple[str, str]]:
    """The entries of a section, taken off the lines."""
    items: list[tuple[str, str]] = []
    while lines and (not lines[0] or lines[0].startswith("    ")):
        line = lines.pop(0)
        found = re.match(r"^ {4}(\w+): (.*)$", line)
        if found:
            items.append((found[1], found[2]))
        elif line.strip():
            name, said = items.pop()
            items.append((name, f"{said} {line.strip()}"))
    return items


def _paragraphs(lines: list[str]) -> Iterator[str]:
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.strip():
            yield paragraph.strip().replace("\n", " ") + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
