"""Records: one JSON form for everything that a lake answers."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

import orjson
import pyarrow as pa
import pytest

import lakeward as lw
from lakeward.engines.arrow.dataset import LakeDataset
from lakeward.lake import records as all_records
from lakeward.lake.aio import AsyncLake
from lakeward.lake.altering import TableAlter
from lakeward.lake.branch import Branch, BranchTable
from lakeward.lake.querying import LakeDuckDB
from lakeward.lake.rest_catalog import RestCatalog
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.model.records import HIDDEN, in_json, is_record, shown_as, to_json
from lakeward.read.aio import AsyncRows
from lakeward.read.result import QueryResult
from lakeward.read.snapshot import TableSnapshot
from lakeward.stream.consumer import Consumer
from lakeward.stream.sink import Sink, SinkGroup
from lakeward.write.transaction.hooks import Hooks
from tests.docs.api_page import members

NOUNS = (
    lw.Lake,
    lw.Table,
    lw.Transaction,
    AsyncLake,
    AsyncRows,
    TableAlter,
    Branch,
    BranchTable,
    Hooks,
    LakeSnapshot,
    Sink,
    SinkGroup,
    TableSnapshot,
    Consumer,
    LakeDataset,
    LakeDuckDB,
    QueryResult,
    RestCatalog,
    pa.Table,
    pa.RecordBatchReader,
)
"""Objects that a user works with. What they are asked for is a record."""
PLAIN = (str, int, float, bool, datetime, NoneType, StrEnum)
FACADE = (lw.Lake, lw.Table, Branch, LakeSnapshot, TableSnapshot)
ELSEWHERE = {
    ("Lake", "acting_as"),  # a lake of the same kind, which does things in another name
    ("Lake", "on"),  # gives the listener back
    ("LakeSnapshot", "table"),
    ("TableSnapshot", "parsed"),  # internal
}


class Colour(StrEnum):
    RED = "red"


class Pair(NamedTuple):
    a: int
    b: str | None


@dataclass(frozen=True)
class Sample:
    name: str
    when: datetime
    colour: Colour
    pairs: tuple[Pair, ...]
    numbers: Mapping[str, int]
    place: Path
    exact: Decimal
    secret: str = field(metadata=HIDDEN)
    kind_of: str = field(metadata=shown_as("kind"))
    _own: int = 7

    @property
    @in_json
    def size(self) -> int:
        return len(self.name)

    @property
    def unmarked(self) -> int:
        return 5


@dataclass(frozen=True)
class Larger(Sample):
    more: bool = True


def _sample(kind: type[Sample] = Sample) -> Sample:
    when = datetime(2024, 1, 2, 3, 4, tzinfo=UTC)
    pairs = (Pair(1, None),)
    return kind("n", when, Colour.RED, pairs, {"t": 1}, Path("/x"), Decimal("1.50"), "s", "k")


EXPECTED = {
    "name": "n",
    "when": "2024-01-02T03:04:00+00:00",
    "colour": "red",
    "pairs": [{"a": 1, "b": None}],
    "numbers": {"t": 1},
    "place": "/x",
    "exact": "1.50",
    "kind": "k",
    "size": 1,
}


def test_a_record_has_its_fields_and_marked_properties() -> None:
    assert to_json(_sample()) == EXPECTED
    assert to_json([_sample(Larger)]) == [{**EXPECTED, "more": True}]
    assert to_json({"all": {"x": _sample()}}) == {"all": {"x": EXPECTED}}


def test_what_is_frozen_is_a_record() -> None:
    changeable = dataclasses.make_dataclass("Changeable", ["a"])

    assert is_record(Sample)
    assert is_record(Pair)
    assert not is_record(changeable)
    assert not is_record(tuple)


@pytest.mark.parametrize("name", [n for n in vars(all_records) if n[0].isupper()])
def test_everything_that_the_lake_lists_as_a_record_is_one(name: str) -> None:
    kind = getattr(all_records, name)
    assert is_record(kind) or issubclass(kind, StrEnum)


def _answers() -> Iterator[Any]:
    # Modules that a facade loads only when they are used are no part of its globals.
    known = {kind.__name__: kind for kind in (*NOUNS, lw.CommitResult)}
    known |= {**vars(all_records), "pa": pa}
    for owner in FACADE:
        for name, member in members(owner).items():
            if name.startswith("_") or (owner.__name__, name) in ELSEWHERE:
                continue
            function = member.fget if isinstance(member, property) else member
            if inspect.isfunction(function):
                hint = eval(function.__annotations__["return"], function.__globals__, known)
                if hint is not Any:  # frames of libraries that need not be installed
                    yield pytest.param(hint, id=f"{owner.__name__}.{name}")


@pytest.mark.parametrize("answer", list(_answers()))
def test_every_answer_of_the_facade_is_a_noun_or_a_record(answer: Any) -> None:
    for kind in _parts(answer):
        assert kind in NOUNS or issubclass(kind, PLAIN) or is_record(kind), kind


def _parts(hint: Any) -> Iterator[type]:
    origin = get_origin(hint)
    if origin is None:
        yield NoneType if hint is None else hint
        return
    assert origin in (list, tuple, dict, Union, UnionType, Iterator, Mapping, Sequence), hint
    for part in get_args(hint):
        if part is not ...:
            yield from _parts(part)


def test_every_answer_of_a_lake_has_a_json_form(tmp_path: Path) -> None:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64", "day": "date"}, partition_by=["day"])
        events: list[lw.CommitEvent] = []
        lake.on("commit", events.append)
        with lake.transaction(message="m") as tx:
            tx.append("t", [{"id": 1, "day": None}])
        assert lake.wait_for_listeners()
        table, snapshot = lake.table("t"), lake.table("t").at()
        branch = lake.branch("b", tables=["t"])
        holder = lake.transaction(locks={"t": "read"})
        answers = {
            "commit": tx.commit(),
            "event": events[0],
            "info": snapshot.info(),
            "details": snapshot.details(),
            "page": snapshot.page(),
            "diff": table.diff(0, 1),
            "history": table.history(),
            "files": table.files(),
            "transactions": lake.transactions(),
            "outcome": lake.outcome(tx.transaction_id),
            "locks": lake.locks(),
            "runs": lake.runs(),
            "doctor": lake.doctor(fix=True),
            "stats": lake.stats(),
            "cut": lake.snapshot().info(),
            "branch": branch.info(),
            "branch diff": branch.diff(),
            "copy": lake.backup(tmp_path / "copy.db"),
            "counters": lake.counters(),
        }
        holder.rollback()
    shown = orjson.loads(orjson.dumps(to_json(answers)))

    assert shown["event"]["versions"] == {"t": 1}
    assert shown["event"]["timestamp"] == shown["commit"]["timestamp"]
    assert shown["page"]["rows"] == [{"id": 1, "day": None}]
    assert "data" not in shown["page"]
    assert shown["diff"]["partitions"][0]["partition"] == "day=(none)"
    assert shown["doctor"]["healthy"] is True
    assert shown["doctor"]["mended"]["expired"] == 0
    assert shown["locks"][0]["lease_left_seconds"] > 0
    assert "lease_left" not in shown["locks"][0]
    assert shown["outcome"]["committed"] is True
    assert shown["cut"]["tables"][0]["version"] == 1
