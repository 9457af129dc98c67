"""A Delta table's working copy: a log of its own that names the table's files where they lie.

The copy demands what the table demands, but for the guard and for timestamps inside commits, which
are for the table's own log. Its files and deletion vectors are named by their full addresses, so
any engine may read them, and none of them is copied.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import orjson

from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta.checkpoint import (
    Checkpoint,
    checkpoint_bytes,
    last_checkpoint_bytes,
)
from lakeward.formats.delta.columns import absolute_adds
from lakeward.formats.delta.protocol import GUARD, ICT, ICT_PROPERTY, guarded
from lakeward.formats.delta.publication import add, metadata
from lakeward.formats.delta.values import file_path
from lakeward.formats.delta.vectors import absolute_vector, address
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, Lines, LoggedFile

BRANCHED: Final = "BRANCH"
"""The operation of commits that give a copy files of its table."""

IN_ONE_COMMIT: Final = 1000
"""Up to how many files the copy's first commit names itself; more are in a checkpoint."""

_UNBRANCHED: Final = frozenset(
    {
        "catalogManaged",
        "clustering",
        "domainMetadata",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
        "rowTracking",
    }
)
_IN_CHECKSUM: Final = 50
"""Up to how many files a checksum names; Spark takes no more from one."""
_VECTORS: Final = "delta.enableDeletionVectors"
_NAMESPACE: Final = uuid.UUID("6a3b4f0e-5f0b-4a55-9a1e-6b1f6c0f6d3e")


@dataclass(frozen=True, slots=True)
class Origin:
    """What a copy is made from, and for whom.

    Attributes:
        head: The table.
        definition: Of the copy.
        root: The table's full address.
        owner: What the copy is for; its id follows from it.
        now_ms: When it is made.
        engine: Who makes it.
    """

    head: Head
    definition: Definition
    root: str
    owner: str
    now_ms: int
    engine: str

    @property
    def copy(self) -> Head:
        """The table's head, as that of a table of its own."""
        named = uuid.uuid5(_NAMESPACE, f"{self.head.uuid}/{self.owner}")
        return replace(self.head, uuid=str(named))

    @property
    def info(self) -> dict[str, Any]:
        """What the copy's first commit says of itself."""
        return {
            "timestamp": self.now_ms,
            "operation": BRANCHED,
            "operationParameters": {"version": str(self.head.version)},
            "engineInfo": self.engine,
            "txnId": self.owner,
        }


@dataclass(frozen=True, slots=True)
class FirstCommit:
    """The files of a copy's log that make its first version.

    Attributes:
        version: 0, or 1 where a checkpoint holds what earlier commits would have said: then nobody
            can begin anywhere else.
        commit: Of the version.
        checkpoint: Of the version, where there are many files.
        pointer: To the checkpoint.
        checksum: What Spark takes a small state from, where it would run jobs to find it out.
    """

    version: int
    commit: bytes
    checkpoint: bytes | None = None
    pointer: bytes | None = None
    checksum: bytes | None = None


def check_branchable(definition: Definition, table: str) -> None:
    """Refuse a table whose log holds what a copy of it could not keep right.

    Raises:
        UnsupportedFeature: It does.
    """
    used = {
        *(definition.protocol.get("writerFeatures") or ()),
        *(definition.protocol.get("readerFeatures") or ()),
    }
    found = sorted(used & _UNBRANCHED)
    if found:
        what = f"Table {table} uses {', '.join(found)}, so it has no branches yet."
        hint = "Write it with append, overwrite and delete, or make a table without the feature."
        raise UnsupportedFeature(what, hint=hint, table=table, features=found)


def branch_definition(definition: Definition) -> Definition:
    """What holds on a copy."""
    protocol = dict(definition.protocol)
    if "writerFeatures" in protocol:
        kept = [f for f in protocol["writerFeatures"] if f not in (GUARD, ICT)]
        protocol["writerFeatures"] = kept
    properties = {k: v for k, v in definition.properties.items() if not _is_timing(k)}
    return replace(definition, protocol=protocol, properties=properties)


def main_definition(found: Definition, before: Definition) -> Definition:
    """What a definition that a copy ended with means for its table.

    Args:
        found: On the copy.
        before: Of the table.
    """
    features = before.protocol.get("writerFeatures") or ()
    protocol = dict(found.protocol)
    if GUARD in features:
        protocol = guarded(protocol)
    elif ICT in features:
        protocol["writerFeatures"] = sorted({*protocol["writerFeatures"], ICT})
    timing = {k: v for k, v in before.properties.items() if _is_timing(k)}
    return replace(
        found, protocol=protocol, properties={**found.properties, **timing}, comment=found.comment
    )


def first_commit(origin: Origin, files: Iterable[LoggedFile]) -> FirstCommit:
    """The log that a copy begins with.

    Args:
        origin: Of the copy.
        files: Of the table that the copy has; none for one that is only added to.
    """
    copy, definition = origin.copy, origin.definition
    named = [replace(f, file=absolute(f.file, origin.root, definition)) for f in files]
    lines: list[dict[str, Any]] = [{"commitInfo": origin.info}]
    if len(named) <= IN_ONE_COMMIT:
        lines.append({"protocol": dict(definition.protocol)})
        lines.append({"metaData": metadata(copy, definition)})
        lines += [{"add": add(f.file, definition.schema, changed=False)} for f in named]
        checksum = None if _VECTORS in definition.properties else _checksum(lines)
        return FirstCommit(0, _lines(lines), checksum=checksum)
    data, actions = checkpoint_bytes(copy, definition, named, [], [])
    return FirstCommit(1, _lines(lines), data, last_checkpoint_bytes(1, actions, len(data)))


def _checksum(lines: Sequence[dict[str, Any]]) -> bytes | None:
    """The checksum of a first commit of few files; none where it would have to tell of vectors."""
    adds = [line["add"] for line in lines if "add" in line]
    if len(adds) > _IN_CHECKSUM or any("deletionVector" in a for a in adds):
        return None
    said = {key: value for line in lines for key, value in line.items() if key != "add"}
    return orjson.dumps(
        {
            "txnId": said["commitInfo"].get("txnId"),
            "tableSizeBytes": sum(a["size"] for a in adds),
            "numFiles": len(adds),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": [],
            "domainMetadata": [],
            "metadata": said["metaData"],
            "protocol": said["protocol"],
            "allFiles": adds,
        }
    )


def first_checkpoint(origin: Origin, chunks: Iterable[Lines]) -> FirstCommit:
    """The log that a copy with all files of a version begins with, from rows of the log.

    Args:
        origin: Of the copy.
        chunks: The files, as `lakeward.log.files.lines_at` gives them.
    """
    definition = origin.definition
    as_spark = definition.properties.get(_VECTORS) == "true"
    into = partial(absolute_adds, schema=definition.schema, root=origin.root, as_spark=as_spark)
    out = Checkpoint(origin.copy, definition, [], [])
    # Arrow works without Python's lock, while the next lines are fetched.
    with ThreadPoolExecutor(1, "lakeward-branch") as beside:
        for taken in [beside.submit(lambda some: out.take(into(some)), lines) for lines in chunks]:
            taken.result()
    data, actions = out.finish()
    commit = _lines([{"commitInfo": origin.info}])
    return FirstCommit(1, commit, data, last_checkpoint_bytes(1, actions, len(data)))


def later_commit(
    definition: Definition, files: Iterable[LoggedFile], *, root: str, now_ms: int, engine: str
) -> bytes:
    """A commit that gives a copy the table's files after all."""
    info = {
        "timestamp": now_ms,
        "operation": BRANCHED,
        "operationParameters": {},
        "engineInfo": engine,
    }
    schema = definition.schema
    named = (absolute(f.file, root, definition) for f in files)
    return _lines([{"commitInfo": info}, *({"add": add(f, schema, changed=False)} for f in named)])


def absolute(file: DataFile, root: str, definition: Definition) -> DataFile:
    """A file of the table under its full address, its deletion vector too."""
    as_spark = definition.properties.get(_VECTORS) == "true"
    place = address(file.path, root, as_spark=as_spark)
    extra = {k: v for k, v in (file.extra or {}).items() if k != "path"}
    return replace(
        file,
        path=file_path(place),
        deletion_vector=absolute_vector(file.deletion_vector, root),
        extra={**extra, "path": place},
    )


def _is_timing(key: str) -> bool:
    return key == ICT_PROPERTY or key.startswith("delta.inCommitTimestampEnablement")


def _lines(actions: Iterable[dict[str, Any]]) -> bytes:
    return b"\n".join(map(orjson.dumps, actions)) + b"\n"
