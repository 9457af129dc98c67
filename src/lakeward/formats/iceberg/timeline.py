"""Finds the sequence of snapshots that were current on a table's main branch.

A document has it twice: as the ancestors of the current snapshot, and as the snapshot log. Only the
log has rollbacks; the ancestors include snapshots that the log dropped; neither has expired ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lakeward.errors import CorruptTable
from lakeward.formats.iceberg.document import Document


@dataclass(frozen=True, slots=True)
class Stop:
    """A state of the main branch.

    Attributes:
        snapshot: The current snapshot; None if the branch was emptied.
        at_ms: When the snapshot became current.
        again: Whether it had been current before: another writer rolled back to it.
    """

    snapshot: dict[str, Any] | None
    at_ms: int
    again: bool = False


def timeline(document: Document) -> list[Stop]:
    """Return the states in a document, oldest first; raise `CorruptTable` if it is damaged."""
    known = document.all_snapshots()
    logged = [(n, at_ms) for n, at_ms in _logged(document) if n in known]
    current = document.current_id
    if not logged or logged[-1][0] != current:
        return [_stop(s) for s in ancestors(document, current)]
    first = [_stop(s) for s in ancestors(document, logged[0][0])]
    out, seen = first, {_number(s) for s in first}
    for number, at_ms in logged[1:]:
        if number != _number(out[-1]):
            out.append(Stop(known[number], at_ms, number in seen))
            seen.add(number)
    return out


def since(document: Document, known: Document) -> list[Stop]:
    """Return the states after the current one of the document `known`, oldest first."""
    before, after = timeline(known), timeline(document)
    if document.current_id is None:
        return [] if known.current_id is None else [Stop(None, document.updated_ms)]
    left = {_number(s) for s in after}
    # Snapshots that were expired meanwhile are in neither.
    shared = [_number(s) for s in before if _number(s) in left]
    if [_number(s) for s in after[: len(shared)]] == shared:
        new = after[len(shared) :]
    else:
        new = after[_behind(after, known.current_id) :]
    if new or document.current_id == known.current_id:
        return _marked(new, before)
    return [Stop(after[-1].snapshot, document.updated_ms, again=True)]


def ancestors(document: Document, number: int | None) -> list[dict[str, Any]]:
    """Return a snapshot and its ancestors, oldest first."""
    known = document.all_snapshots()
    out: list[dict[str, Any]] = []
    seen: set[int] = set()
    while number is not None and number in known and number not in seen:
        seen.add(number)
        out.append(known[number])
        number = known[number].get("parent-snapshot-id")
    out.reverse()
    return out


def _marked(new: Sequence[Stop], before: Sequence[Stop]) -> list[Stop]:
    """Return the states `new`, with `again` set for those whose snapshots are in `before`."""
    seen = {_number(s) for s in before}
    return [Stop(s.snapshot, s.at_ms, s.again or _number(s) in seen) for s in new]


def _behind(stops: Sequence[Stop], number: int | None) -> int:
    """Return the index after the last state of a snapshot; the last index if no state has it."""
    found = [i for i, s in enumerate(stops) if _number(s) == number]
    return found[-1] + 1 if found else len(stops) - 1


def _stop(snapshot: dict[str, Any]) -> Stop:
    return Stop(snapshot, int(snapshot["timestamp-ms"]))


def _number(stop: Stop) -> int | None:
    return None if stop.snapshot is None else int(stop.snapshot["snapshot-id"])


def _logged(document: Document) -> list[tuple[int, int]]:
    try:
        entries = orjson.loads(b"[%s]" % document.snapshot_log)
        return [(int(e["snapshot-id"]), int(e["timestamp-ms"])) for e in entries]
    except (KeyError, TypeError, ValueError) as error:
        what = f"The snapshot log of {document.location} cannot be read: {error!r}."
        raise CorruptTable(what, path=document.location) from error
