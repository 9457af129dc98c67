"""The log of a Delta branch: a working copy that refers to the table's files by full addresses.

No data file is copied, and any engine can read the branch. The copy's protocol is that of the
table, without the guard and without in-commit timestamps, which only the table's log needs.
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
from lakeward.formats.delta.identity import marks_of, published
from lakeward.formats.delta.parse import CONSTRAINT
from lakeward.formats.delta.protocol import GUARD, ICT, ICT_PROPERTY, extended, guarded
from lakeward.formats.delta.publication import add, domain_metadata, metadata
from lakeward.formats.delta.values import file_path
from lakeward.formats.delta.vectors import absolute_vector, address
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, Lines, LoggedFile

BRANCHED: Final = "BRANCH"
"""The operation in the `commitInfo` of commits that add files of the table to its copy."""

IN_ONE_COMMIT: Final = 1000
"""The most files that a copy's first commit lists; if there are more, a checkpoint lists them."""

_UNBRANCHED: Final = frozenset(
    {
        "catalogManaged",
        "icebergCompatV1",
        "icebergCompatV2",
        "icebergCompatV3",
    }
)
_IN_CHECKSUM: Final = 50
"""The most files that a checksum lists; Spark reads no more files from a checksum."""
_VECTORS: Final = "delta.enableDeletionVectors"
_NAMESPACE: Final = uuid.UUID("6a3b4f0e-5f0b-4a55-9a1e-6b1f6c0f6d3e")


@dataclass(frozen=True, slots=True)
class Origin:
    """The table and version that a copy is made from.

    Attributes:
        definition: The definition of the copy.
        root: The table's full address.
        owner: The id of the transaction or the name of the branch; the copy's table id is derived
            from it.
        engine: The program that makes the copy.
        domains: Domain metadata of the table at the version.
    """

    head: Head
    definition: Definition
    root: str
    owner: str
    now_ms: int
    engine: str
    domains: Mapping[str, str | None] = field(default_factory=dict)

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
        version: 0; or 1 with a checkpoint, from which all readers then have to begin.
        commit: The bytes of the commit file.
        checkpoint: The bytes of the version's checkpoint, if there are many files.
        pointer: The bytes of `_last_checkpoint`, if there is a checkpoint.
        checksum: The bytes of the version's checksum file, if there are few files; it saves Spark
            the jobs that would compute it.
    """

    version: int
    commit: bytes
    checkpoint: bytes | None = None
    pointer: bytes | None = None
    checksum: bytes | None = None


def check_branchable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` if a table uses features that a copy cannot preserve."""
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
    """Return the definition of a copy of a table: without guard and in-commit timestamps."""
    protocol = dict(definition.protocol)
    if "writerFeatures" in protocol:
        kept = [f for f in protocol["writerFeatures"] if f not in (GUARD, ICT)]
        protocol["writerFeatures"] = kept
    properties = {k: v for k, v in definition.properties.items() if not _is_timing(k)}
    return replace(definition, protocol=protocol, properties=properties)


def with_settings(definition: Definition, settings: Mapping[str, str]) -> Definition:
    """Return the definition of a copy with further properties, among them checks of rows."""
    checks = {
        key.removeprefix(CONSTRAINT): text
        for key, text in settings.items()
        if key.startswith(CONSTRAINT)
    }
    properties = {k: v for k, v in settings.items() if not k.startswith(CONSTRAINT)}
    found = replace(
        definition,
        properties={**definition.properties, **properties},
        constraints={**definition.constraints, **checks},
    )
    return replace(found, protocol=extended(found)) if checks else found


def main_definition(found: Definition, before: Definition) -> Definition:
    """Return a table's definition after the commit of a copy.

    It is the copy's last definition, `found`, with the guard and the in-commit timestamps that the
    table had `before`.
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
    """Return the first log files of a copy that contains `files` of the table."""
    copy, definition = origin.copy, origin.definition
    listed = [replace(f, file=absolute(f.file, origin.root, definition)) for f in files]
    lines: list[dict[str, Any]] = [{"commitInfo": origin.info}]
    if len(listed) <= IN_ONE_COMMIT:
        lines.append({"protocol": dict(definition.protocol)})
        lines.append({"metaData": metadata(copy, definition, marks_of(origin.domains))})
        named = published(origin.domains)
        lines += [{"domainMetadata": domain_metadata(n, text)} for n, text in named]
        lines += [{"add": add(f.file, definition.schema, changed=False)} for f in listed]
        plain = _VECTORS not in definition.properties and not named
        checksum = _checksum(lines) if plain else None
        return FirstCommit(0, _lines(lines), checksum=checksum)
    data, actions = checkpoint_bytes(copy, definition, listed, [], [], domains=origin.domains)
    return FirstCommit(1, _lines(lines), data, last_checkpoint_bytes(1, actions, len(data)))


def _checksum(lines: Sequence[dict[str, Any]]) -> bytes | None:
    """Return the checksum of a first commit; None for many files or files with deletion vectors."""
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
    """Return the first log files of a copy with many files, from lines of `log.files.lines_at`."""
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
    definition: Definition,
    files: Iterable[LoggedFile],
    *,
    root: str,
    now_ms: int,
    engine: str,
    domains: Mapping[str, str | None] | None = None,
) -> bytes:
    """Return a commit that adds files of the table to a copy that was made without them."""
    info = {
        "timestamp": now_ms,
        "operation": BRANCHED,
        "operationParameters": {},
        "engineInfo": engine,
    }
    schema = definition.schema
    named = (absolute(f.file, root, definition) for f in files)
    configured = published(domains or {})
    return _lines(
        [
            {"commitInfo": info},
            *({"domainMetadata": domain_metadata(n, text)} for n, text in configured),
            *({"add": add(f, schema, changed=False)} for f in named),
        ]
    )


def altering_commit(origin: Origin) -> bytes:
    """Return a commit that sets the definition of `origin` on a copy and changes no files."""
    definition = origin.definition
    info = {**origin.info, "operationParameters": {}}
    return _lines(
        [
            {"commitInfo": info},
            {"protocol": dict(definition.protocol)},
            {"metaData": metadata(origin.copy, definition, marks_of(origin.domains))},
        ]
    )


def absolute(file: DataFile, root: str, definition: Definition) -> DataFile:
    """Return a file of the table with full addresses of the file and of its deletion vector."""
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
