"""Parses Delta's JSON actions into the log's types.

Input is not trusted: callers wrap calls in `damage.understanding`, which adds the table and the
version to the error when an action violates the protocol.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import orjson

from lakeward.formats.delta.evolution import evolved
from lakeward.formats.delta.generated import with_generated
from lakeward.formats.delta.mapping import SETTINGS, unmapped
from lakeward.formats.delta.protocol import writer_features
from lakeward.formats.delta.publication import AUDIT_TAG
from lakeward.formats.delta.schema import physical_name
from lakeward.formats.delta.statistics import StatsReader, Trust
from lakeward.formats.delta.values import encode_path, file_path, partition_value, vector_id
from lakeward.model.commit import AppTransaction, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, FileStats
from lakeward.model.types import Field
from lakeward.model.values import MAX_KEY, MIN_KEY, Value

UNKNOWN: Final = "UNKNOWN"
"""The operation of a commit that does not record it."""

_NO_COLUMNS: Final = '{"type":"struct","fields":[]}'
CONSTRAINT: Final = "delta.constraints."
_OURS: Final = "lakeward"
_SPARK: Final = "Apache-Spark/"
_LAST_MOMENT: Final = 253_402_300_799_999
_FILE_KEYS: Final = frozenset(
    {
        "path",
        "partitionValues",
        "size",
        "modificationTime",
        "dataChange",
        "stats",
        "stats_parsed",
        "partitionValues_parsed",
        "deletionVector",
    }
)
_UUID_LENGTH: Final = 20
_PLAIN_PATH: Final = re.compile(r"[\w./=-]+", re.ASCII)


@dataclass(slots=True)
class Actions:
    """The actions of one file of the log, sorted by kind."""

    info: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    adds: list[dict[str, Any]] = field(default_factory=list)
    removes: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    txns: list[dict[str, Any]] = field(default_factory=list)
    domains: list[dict[str, Any]] = field(default_factory=list)
    sidecars: list[dict[str, Any]] = field(default_factory=list)

    def domain_changes(self) -> dict[str, str | None]:
        """Return the new configuration of each domain, by name; None for a removed domain."""
        return {
            _text(d["domain"], "domain"): None if d.get("removed") else str(d["configuration"])
            for d in self.domains
        }

    def app_transactions(self) -> tuple[AppTransaction, ...]:
        """Return the `txn` actions: the last transaction number of each application."""
        return tuple(
            AppTransaction(
                _text(t["appId"], "appId"),
                _integer(t["version"], "version"),
                None if t.get("lastUpdated") is None else _integer(t["lastUpdated"], "lastUpdated"),
            )
            for t in self.txns
        )


def actions_of(data: bytes) -> Actions:
    """Return the actions of a commit, or of a checkpoint in JSON; unknown kinds are ignored.

    Raises `ValueError` if a line is not an action.
    """
    out = Actions()
    lists = {
        "add": out.adds,
        "remove": out.removes,
        "cdc": out.changes,
        "txn": out.txns,
        "domainMetadata": out.domains,
        "sidecar": out.sidecars,
    }
    known = {*lists, "commitInfo", "protocol", "metaData"}
    loads = orjson.loads
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line or line.isspace():
            continue
        try:
            action = loads(line)
        except orjson.JSONDecodeError as error:
            message = f"line {number} of its commit is not JSON, or was cut off ({error})"
            raise ValueError(message) from error
        if type(action) is not dict:
            message = f"line {number} of its commit is not an action"
            raise ValueError(message)
        for kind, body in action.items():
            if body is None or kind not in known:
                continue
            if type(body) is not dict:
                message = f"line {number} of its commit has a {kind!r} that is not an action"
                raise ValueError(message)
            if kind in lists:
                lists[kind].append(body)
            elif kind == "commitInfo":
                out.info = out.info or body
            elif kind == "protocol":
                out.protocol = body
            else:
                out.metadata = body
    return out


def definition_of(
    metadata: Mapping[str, Any] | None,
    protocol: Mapping[str, Any] | None,
    previous: Definition | None,
) -> Definition:
    """Return the definition after these actions, which change the previous definition.

    Raises `ValueError` if protocol or metadata are missing, `CorruptTable` for a bad schema, and
    `UnsupportedFeature` if it needs a newer Lakeward.
    """
    if previous is None and (metadata is None or protocol is None):
        message = f"its first commit has no {'metaData' if metadata is None else 'protocol'}"
        raise ValueError(message)
    demands = previous.protocol if protocol is None and previous else _protocol(protocol or {})
    if metadata is None and previous is not None:
        return with_generated(replace(previous, protocol=demands))
    source = metadata or {}
    text = source.get("schemaString")
    schema = evolved(
        _NO_COLUMNS if text is None else _text(text, "schemaString"),
        previous.schema if previous else None,
    )
    configuration = source.get("configuration") or {}
    if "columnMapping" not in writer_features(demands):
        # Without the feature in the protocol its settings have no effect; deltalake leaves them
        # in tables whose protocol lists other features.
        schema = unmapped(schema)
        configuration = {k: v for k, v in configuration.items() if not k.startswith(SETTINGS)}
    created = source.get("createdTime")
    comment = source.get("description")
    found = Definition(
        schema=schema,
        partition_by=tuple(
            _column(schema.by_name, n).id for n in source.get("partitionColumns") or ()
        ),
        properties={k: str(v) for k, v in configuration.items() if not k.startswith(CONSTRAINT)},
        constraints={
            k.removeprefix(CONSTRAINT): str(v)
            for k, v in configuration.items()
            if k.startswith(CONSTRAINT)
        },
        protocol=demands,
        created_ms=None if created is None else _integer(created, "createdTime"),
        comment=None if comment is None else str(comment),
    )
    return with_generated(found)


def commit_info_of(source: Mapping[str, Any] | None, uuid: str, version: int) -> CommitInfo:
    """Return the facts in the `commitInfo` of a foreign commit."""
    raw = source or {}
    tags = raw.get("tags")
    tags = tags if isinstance(tags, dict) else {}
    return CommitInfo(
        transaction_id=str(raw.get("txnId") or f"adopted-{uuid}-{version}"),
        operation=str(raw.get("operation") or UNKNOWN),
        parameters={k: _as_text(v) for k, v in _mapping(raw, "operationParameters").items()},
        metrics=_mapping(raw, "operationMetrics"),
        actor=str(raw.get("userName") or ""),
        engine=str(raw.get("engineInfo") or ""),
        message=None if raw.get("userMetadata") is None else _as_text(raw["userMetadata"]),
        members=_count(tags.get("lakeward.members")),
        attempts=_count(tags.get("lakeward.attempts")),
        blind=raw.get("isBlindAppend") is True,
        adopted=True,
        extra=source,
        anchor=None if AUDIT_TAG not in tags else str(tags[AUDIT_TAG]),
        properties=_own_properties(raw, tags),
    )


def _own_properties(raw: Mapping[str, Any], tags: Mapping[str, Any]) -> dict[str, str]:
    if not str(raw.get("engineInfo") or "").lower().startswith(_OURS):
        return {}
    return {k: str(v) for k, v in tags.items() if not k.startswith(("lakeward.", "delta."))}


def is_ours(info: CommitInfo) -> bool:
    """Return whether Lakeward wrote the commit."""
    return info.engine.lower().startswith(_OURS)


def trust_in(info: CommitInfo) -> Trust:
    """Return how far the statistics of a commit can be trusted, by the engine that wrote it.

    Lakeward rounds nothing, and writes no bounds for a column with NaN. Spark orders NaN as the
    lake does: the upper bound of a column with NaN is NaN, which is no bound.
    """
    ours = is_ours(info)
    return Trust(exact=ours, orders_nan=ours or info.engine.startswith(_SPARK))


def timestamp_of(source: Mapping[str, Any] | None) -> int | None:
    """Return a commit's timestamp: the in-commit one, else its writer's clock; None if neither."""
    for name in ("inCommitTimestamp", "timestamp"):
        found = (source or {}).get(name)
        if type(found) is int and 0 <= found <= _LAST_MOMENT:
            return found
    return None


def vector_of(source: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a deletion vector's descriptor without null values; raise `ValueError` if invalid."""
    if source is None:
        return None
    out = {k: v for k, v in source.items() if v is not None}
    kind, place = _text(out.get("storageType"), "storageType"), out.get("pathOrInlineDv")
    place = _text(place, "pathOrInlineDv")
    outside = kind == "u" and ".." in place[:-_UUID_LENGTH].split("/")
    if kind not in ("u", "i", "p") or outside:
        message = f"the deletion vector {out} cannot be understood"
        raise ValueError(message)
    if kind == "p":
        file_path(place)
    return out


def removed_key(action: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the path and the deletion vector's id of the file that a `remove` removes."""
    return _path(action["path"]), vector_id(vector_of(action.get("deletionVector")))


class FileReader:
    """Parses `add` actions under one definition."""

    def __init__(self, definition: Definition) -> None:
        self._statistics = StatsReader(definition.schema)
        fields = [definition.schema.by_id[i] for i in definition.partition_by]
        self._partition = [(f, physical_name(f)) for f in fields]
        self._known: dict[tuple[str | None, ...], dict[int, Value]] = {}

    def add(self, action: dict[str, Any], trust: Trust) -> DataFile:
        """Return the file of an `add` action."""
        rows, bounds = self._stats(action, trust)
        vector = action.get("deletionVector")
        path = _path(action["path"])
        return DataFile(
            path,
            _number(action["size"], "size"),
            rows,
            _integer(action.get("modificationTime") or 0, "modificationTime"),
            self.partition(action.get("partitionValues")),
            bounds,
            None if vector is None else vector_of(vector),
            _extra(action, path),
        )

    def change(self, action: dict[str, Any]) -> DataFile:
        """Return the file of a `cdc` action."""
        path = _path(action["path"])
        values = self.partition(action.get("partitionValues"))
        size = _number(action["size"], "size")
        return DataFile(path, size, None, 0, values, extra=_extra(action, path))

    def _stats(self, action: dict[str, Any], trust: Trust) -> tuple[int | None, FileStats | None]:
        text = action.get("stats")
        if type(text) is str:
            return self._statistics.text(text, trust)
        parsed = action.get("stats_parsed")
        return self._statistics.body(parsed, trust) if type(parsed) is dict else (None, None)

    @property
    def is_partitioned(self) -> bool:
        """Whether files have partition values."""
        return bool(self._partition)

    def partition(self, source: Mapping[str, str | None] | None) -> dict[int, Value]:
        """Return partition values by field id; files of one partition share a dictionary."""
        if not self._partition:
            return {}
        given = source or {}
        texts = tuple(
            given[name] if name in given else given.get(column.name)
            for column, name in self._partition
        )
        found = self._known.get(texts)
        if found is None:
            columns = zip(self._partition, texts, strict=True)
            found = {column.id: _partition_value(column, text) for (column, _), text in columns}
            self._known[texts] = found
        return found


def _partition_value(column: Field, text: Any) -> Value:
    try:
        return partition_value(column, text)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"{text!r} is no {column.type}, the type of the partition column {column.name}"
        raise ValueError(message) from error


def _protocol(source: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {
        name: _number(source[name], name) for name in ("minReaderVersion", "minWriterVersion")
    }
    for name in ("readerFeatures", "writerFeatures"):
        if source.get(name) is not None:
            out[name] = sorted(_text(f, name) for f in source[name])
    return out


def _extra(action: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    """Return the keys of an action that `DataFile` has no field for; None if there are none.

    The path is among them if `encode_path` would not return the text in the action.
    """
    extra = None
    if len(action) > len(_FILE_KEYS & action.keys()):
        extra = {k: v for k, v in action.items() if v is not None and k not in _FILE_KEYS}
    written = action["path"]
    if not _PLAIN_PATH.fullmatch(written) and encode_path(path) != written:
        extra = {**(extra or {}), "path": written}
    return extra or None


def _column(columns: Mapping[str, Field], name: Any) -> Field:
    if name not in columns:
        message = f"its partition column {name!r} is not in its schema"
        raise ValueError(message)
    return columns[name]


def _path(source: Any) -> str:
    return file_path(_text(source, "path"))


def _text(source: Any, name: str) -> str:
    if type(source) is not str or not source:
        message = f"the {name} {source!r} is not a text"
        raise ValueError(message)
    return source


def _number(source: Any, name: str) -> int:
    if type(source) is not int or not 0 <= source <= MAX_KEY:
        message = f"the {name} {source!r} is not a number that it can be"
        raise ValueError(message)
    return source


def _integer(source: Any, name: str) -> int:
    if type(source) is not int or not MIN_KEY <= source <= MAX_KEY:
        message = f"the {name} {source!r} is not a number"
        raise ValueError(message)
    return source


def _mapping(source: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = source.get(name)
    return found if isinstance(found, dict) else {}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _count(value: Any) -> int:
    return int(value) if isinstance(value, str) and value.isdecimal() and 0 < len(value) < 10 else 1
