"""A lost store rebuilt from the published logs.

Every table that this lake guarded, or made, tells its name, its schema with field ids, its history
and the transactions that its versions belong to. What was ratified and not yet published when the
store was lost is gone with it: a transaction that is there with some of its tables only is
reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lakeward.errors import AlreadyExists, InvalidName, LakewardError
from lakeward.formats.delta.history import read_history
from lakeward.formats.delta.parse import is_ours
from lakeward.formats.delta.protocol import is_guarded
from lakeward.formats.delta.publication import LOG_DIRECTORY
from lakeward.log import commits, heads, transactions
from lakeward.model.clock import now_ms
from lakeward.model.names import TableName
from lakeward.read.parts import Parts
from lakeward.storage.base import Storage
from lakeward.write.adopt import adopt


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What was found.

    Attributes:
        tables: Names with their newest versions.
        skipped: Locations that were left out, with the reason.
        incomplete: Transactions that have fewer tables than they had: id, found and expected.
    """

    tables: dict[str, int]
    skipped: dict[str, str]
    incomplete: list[tuple[str, int, int]]


def rebuild(parts: Parts) -> Rebuilt:
    """Fill an empty store from what is published below the warehouse.

    Raises:
        AlreadyExists: The store has tables.
    """
    with parts.database.read() as session:
        if heads.all_heads(session):
            what = f"The store {parts.database.label} has tables already."
            raise AlreadyExists(what, hint="Rebuild into an empty store.")
    found: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for location in sorted(_locations(parts.storage), key=lambda p: -_newest(parts, p)):
        try:
            name = _name(parts, location)
            if name is None:
                skipped[location] = "it was not made by a lake"
            elif str(name) in found:
                skipped[location] = f"a newer table is called {name}"
            else:
                place = parts.storage.uri(location)
                head = adopt(parts, name, place, guard=False, take_over=True)
                found[str(name)] = head.version
        except LakewardError as error:
            skipped[location] = str(error)
    return Rebuilt(dict(sorted(found.items())), skipped, _register(parts))


def _locations(storage: Storage) -> Iterator[str]:
    """Directories with a published log; what lies below one is its own business."""
    stack = [""]
    while stack:
        directory = stack.pop()
        below = storage.directories(directory)
        if directory and f"{directory}/{LOG_DIRECTORY}" in below:
            yield directory
        else:
            stack.extend(below)


def _newest(parts: Parts, location: str) -> int:
    listed = parts.storage.listing(f"{location}/{LOG_DIRECTORY}")
    return max((f.modified_ms for f in listed), default=0)


def _name(parts: Parts, location: str) -> TableName | None:
    history = read_history(parts.storage, location)
    definition = history.definitions[-1][1]
    ours = is_guarded(definition.protocol) or is_ours(history.commits[0].info)
    if not ours or history.name is None:
        return None
    try:
        return TableName.parse(history.name)
    except InvalidName:
        return None


def _register(parts: Parts) -> list[tuple[str, int, int]]:
    """Give every transaction its row again, so that it can be asked for by id."""
    expected: dict[str, int] = {}
    present: Counter[str] = Counter()
    with parts.database.write() as session:
        for transaction_id, members in commits.transaction_members(session):
            expected[transaction_id] = members
            present[transaction_id] += 1
        transactions.register_ratified(session, expected, parts.actor, now_ms())
    return [(i, present[i], n) for i, n in expected.items() if present[i] < n]
