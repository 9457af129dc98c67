"""The log of a Delta branch: a working copy that names the table's files by full addresses.

No file is copied, and any engine can read them. The copy's protocol is the table's without the
guard and without in-commit timestamps, which belong to the table's own log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
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
from lakeward.formats.delta.publication import add, domain_metadata, metadata
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
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
    }
)
_IN_CHECKSUM: Final = 50
"""Up to how many files a checksum names; Spark takes no more from one."""
_VECTORS: Final = "delta.enableDeletionVectors"
_NAMESPACE: Final = uuid.UUID("6a3b4f0e-5f0b-4a55-9a1e-6b1f6c0f6d3e")


@dataclass(frozen=True, slots=True)
class Origin:
    """The table and version that a copy is made from.

    Attributes:
        definition: The definition of the copy.
        root: The table's full address.
        owner: The transaction or named branch; the copy's table id is derived from it.
        engine: The program that makes the copy.
        domains: Domain metadata of the table at the version.
    """

    head: Head
    definition: Definition
    root: str
    owner: str
    now_ms: int
    engine: str
    domains: Mapping[str, str] = field(default_factory=dict)

    @property
    def copy(self) -> Head:
        """The table's head with the copy's own table id."""
        named = uuid.uuid5(_NAMESPACE, f"{self.head.uuid}/{self.owner}")
        return replace(self.head, uuid=str(named))

    @property
    def info(self) -> dict[str, Any]:
        """The `commitInfo` of the copy's first commit."""
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
        version: 0, or 1 with a checkpoint, from which all readers then have to begin.
        checkpoint: Of the version, where there are many files.
        pointer: The content of `_last_checkpoint`.
        checksum: Of a small state, which saves Spark the jobs that compute it.
    """

    version: int
    commit: bytes
    checkpoint: bytes | None = None
    pointer: bytes | None = None
    checksum: bytes | None = None


def check_branchable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` for a table whose features a copy cannot preserve."""
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
    """The definition of a copy of a table."""
    protocol = dict(definition.protocol)
    if "writerFeatures" in protocol:
        kept = [f for f in protocol["writerFeatures"] if f not in (GUARD, ICT)]
        protocol["writerFeatures"] = kept
    properties = {k: v for k, v in definition.properties.items() if not _is_timing(k)}
    return replace(definition, protocol=protocol, properties=properties)


def main_definition(found: Definition, before: Definition) -> Definition:
    """The table's definition after a copy of it ended with the definition `found`."""
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
    """The log that a copy with some files of the table, or none, begins with."""
    copy, definition = origin.copy, origin.definition
    listed = [replace(f, file=absolute(f.file, origin.root, definition)) for f in files]
    lines: list[dict[str, Any]] = [{"commitInfo": origin.info}]
    if len(listed) <= IN_ONE_COMMIT:
        lines.append({"protocol": dict(definition.protocol)})
        lines.append({"metaData": metadata(copy, definition)})
        named = sorted(origin.domains.items())
        lines += [{"domainMetadata": domain_metadata(n, text)} for n, text in named]
        lines += [{"add": add(f.file, definition.schema, changed=False)} for f in listed]
        plain = _VECTORS not in definition.properties and not origin.domains
        checksum = _checksum(lines) if plain else None
        return FirstCommit(0, _lines(lines), checksum=checksum)
    data, actions = checkpoint_bytes(copy, definition, listed, [], [], domains=origin.domains)
    return FirstCommit(1, _lines(lines), data, last_checkpoint_bytes(1, actions, len(data)))


def _checksum(lines: Sequence[dict[str, Any]]) -> bytes | None:
    """The checksum of a first commit of few files; None where files have deletion vectors."""
    adds = [line["add"] for line in lines if "add" in line]
    if len(adds) > _IN_CHECKSUM or any("deletionVector" in a for a in adds):
        return None
    actions = {key: value for line in lines for key, value in line.items() if key != "add"}
    return orjson.dumps(
        {
            "txnId": actions["commitInfo"].get("txnId"),
            "tableSizeBytes": sum(a["size"] for a in adds),
            "numFiles": len(adds),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": [],
            "domainMetadata": [],
            "metadata": actions["metaData"],
            "protocol": actions["protocol"],
            "allFiles": adds,
        }
    )


def first_checkpoint(origin: Origin, chunks: Iterable[Lines]) -> FirstCommit:
    """The log that a copy with many files begins with, from lines of `log.files.lines_at`."""
    definition = origin.definition
    as_spark = definition.properties.get(_VECTORS) == "true"
    into = partial(absolute_adds, schema=definition.schema, root=origin.root, as_spark=as_spark)
    out = Checkpoint(origin.copy, definition, [], [], domains=origin.domains)
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
    """A commit that adds the table's files to a copy that began without them."""
    info = {
        "timestamp": now_ms,
        "operation": BRANCHED,
        "operationParameters": {},
        "engineInfo": engine,
    }
    schema = definition.schema
    named = (absolute(f.file, root, definition) for f in files)
    return _lines([{"commitInfo": info}, *({"add": add(f, schema, changed=False)} for f in named)])


def altering_commit(origin: Origin) -> bytes:
    """Return a commit that gives a copy the definition of `origin` and keeps its files."""
    definition = origin.definition
    info = {**origin.info, "operationParameters": {}}
    return _lines(
        [
            {"commitInfo": info},
            {"protocol": dict(definition.protocol)},
            {"metaData": metadata(origin.copy, definition)},
        ]
    )


def absolute(file: DataFile, root: str, definition: Definition) -> DataFile:
    """A file of the table, and its deletion vector, by full addresses."""
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
