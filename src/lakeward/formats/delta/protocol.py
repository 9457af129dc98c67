"""The Delta protocol of tables: features that readers and writers must support, and the guard.

The guard is a writer feature that no other engine supports: engines read a guarded table and refuse
to write it, so only the log assigns its versions and a ratified commit can always be published.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta.defaults import FEATURE as DEFAULTS
from lakeward.formats.delta.defaults import computed_defaults, has_defaults
from lakeward.formats.delta.identity import FEATURE as IDENTITY
from lakeward.formats.delta.identity import is_counted, is_identity
from lakeward.formats.delta.mapping import MODE
from lakeward.formats.delta.schema import has_timestamp_ntz, is_generated, only_shown
from lakeward.formats.properties import CHECKPOINT_POLICY, IN_COMMIT_TIMESTAMPS, ROW_TRACKING
from lakeward.model.definition import Definition, known

GUARD: Final = "lakewardManaged"
ICT: Final = "inCommitTimestamp"
ICT_PROPERTY: Final = IN_COMMIT_TIMESTAMPS
_READER_FEATURES: Final = 3
"""The reader version whose tables list the features that readers must support."""
_MAPPED_READER: Final = 2
"""The reader version that implies column mapping."""
_LEGACY: Final = {
    2: ("appendOnly", "invariants"),
    3: ("checkConstraints",),
    4: ("changeDataFeed", "generatedColumns"),
    5: ("columnMapping",),
    6: (IDENTITY,),
}
_LEGACY_NAMES: Final = frozenset(name for names in _LEGACY.values() for name in names)
_WRITABLE: Final = frozenset(
    {
        GUARD,
        ICT,
        DEFAULTS,
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "clustering",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        IDENTITY,
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

_NEWEST_READER: Final = 3
_NEWEST_WRITER: Final = 7
_SHREDDED: Final = frozenset({"variantShredding", "variantShredding-preview"})
_READABLE: Final = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        *_SHREDDED,
        "variantType",
        "variantType-preview",
    }
)


def new_protocol(definition: Definition, *, guard: bool) -> dict[str, Any]:
    """Return the protocol of a new table, with only the features that the table uses."""
    writer: set[str] = {GUARD, ICT} if guard else set()
    reader: set[str] = set()
    if definition.constraints:
        writer.add("checkConstraints")
    if has_timestamp_ntz(definition.schema):
        reader.add("timestampNtz")
    if definition.properties.get("delta.appendOnly") == "true":
        writer.add("appendOnly")
    if definition.properties.get("delta.enableChangeDataFeed") == "true":
        writer.add("changeDataFeed")
    if definition.properties.get("delta.enableDeletionVectors") == "true":
        reader.add("deletionVectors")
    if definition.properties.get(CHECKPOINT_POLICY) == "v2":
        reader.add("v2Checkpoint")
    if any(map(is_generated, definition.schema.walk())):
        writer.add("generatedColumns")
    if any(map(is_identity, definition.schema.fields)):
        writer.add(IDENTITY)
    if has_defaults(definition.schema):
        writer.add(DEFAULTS)
    if definition.properties.get(ROW_TRACKING) == "true":
        writer |= {"rowTracking", "domainMetadata"}
    if definition.properties.get(ICT_PROPERTY) == "true":
        writer.add(ICT)
    if any(not f.nullable for f in definition.schema.walk()):
        # Spark does not even read a table that lists its features without this one.
        writer.add("invariants")
    if not writer and not reader:
        return {"minReaderVersion": 1, "minWriterVersion": 2}
    if not reader and not writer - _LEGACY_NAMES:
        fourth = writer & {"changeDataFeed", "generatedColumns"}
        version = 4 if fourth else 3 if "checkConstraints" in writer else 2
        version = 6 if IDENTITY in writer else version
        return {"minReaderVersion": 1, "minWriterVersion": version}
    if reader:
        return _with_features(_READER_FEATURES, reader, writer | reader)
    return _with_features(1, None, writer)


def extended(definition: Definition, *more: str) -> dict[str, Any]:
    """Return the protocol of a table whose definition changed: old features, and newly needed ones.

    `more` are further features for readers and writers.
    """
    old = definition.protocol
    needed = new_protocol(definition, guard=is_guarded(old))
    version, legacy = int(old["minReaderVersion"]), int(old["minWriterVersion"]) < _NEWEST_WRITER
    writer = writer_features(old) | writer_features(needed) | set(more)
    known = set(old.get("readerFeatures") or ())
    if version == _MAPPED_READER:
        known |= {"columnMapping"} & writer_features(old)
    reader = known | set(needed.get("readerFeatures") or ()) | set(more)
    if reader > known:
        return _with_features(_READER_FEATURES, reader, writer | reader)
    if legacy and int(needed["minWriterVersion"]) < _NEWEST_WRITER:
        least = max(int(old["minWriterVersion"]), int(needed["minWriterVersion"]))
        return {"minReaderVersion": version, "minWriterVersion": least}
    if version == _MAPPED_READER and known:
        return _with_features(_READER_FEATURES, known, writer)
    return _with_features(version, None if old.get("readerFeatures") is None else known, writer)


def guarded(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol with the guard and in-commit timestamps added to its features."""
    version = int(protocol["minReaderVersion"])
    writer = writer_features(protocol) | {GUARD, ICT}
    reader: set[str] | None = None
    if version >= _READER_FEATURES or protocol.get("readerFeatures") is not None:
        # Readers of this version expect the list, even where it is empty.
        reader = set(protocol.get("readerFeatures") or ())
    elif version == 2 and "columnMapping" in writer:
        version, reader = _READER_FEATURES, {"columnMapping"}
    return _with_features(version, reader, writer)


def unguarded(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """Return a guarded table's protocol without the guard."""
    out = dict(protocol)
    out["writerFeatures"] = [f for f in out.get("writerFeatures") or () if f != GUARD]
    return out


def is_guarded(protocol: Mapping[str, Any]) -> bool:
    """Return whether a protocol has the guard."""
    return GUARD in (protocol.get("writerFeatures") or ())


def has_in_commit_timestamps(definition: Definition) -> bool:
    """Return whether commits must have in-commit timestamps."""
    return ICT in (definition.protocol.get("writerFeatures") or ())


def writer_features(protocol: Mapping[str, Any]) -> set[str]:
    """Return all features that a writer must support, including those that the version implies."""
    version = int(protocol["minWriterVersion"])
    if version >= 7:
        return set(protocol.get("writerFeatures") or ())
    found = {f for since, names in _LEGACY.items() if since <= version for f in names}
    # Column mapping concerns readers too, so both versions have to imply it.
    return found - {"columnMapping"} if int(protocol["minReaderVersion"]) < 2 else found


def active_features(definition: Definition) -> set[str]:
    """Return the protocol's features; mapping, generated and identity columns only if used."""
    names = writer_features(definition.protocol) | set(
        definition.protocol.get("readerFeatures") or ()
    )
    fields = list(definition.schema.walk())
    used = {
        "columnMapping": definition.properties.get(MODE, "none") != "none",
        "generatedColumns": any(map(is_generated, fields)),
        IDENTITY: any(map(is_identity, fields)),
    }
    return names - {name for name, is_used in used.items() if not is_used}


def check_readable(definition: Definition, location: str) -> None:
    """Raise `UnsupportedFeature` if this version of Lakeward cannot read the table correctly."""
    protocol = definition.protocol
    variants = [name for name, kind in only_shown(definition.schema) if kind == "variant"]
    if variants and _SHREDDED & set(protocol.get("readerFeatures") or ()):
        what = f"Files of the Delta table at {location} may hold column {variants[0]} in pieces."
        hint = "Drop the feature variantShredding with Spark, or leave the table outside the lake."
        raise UnsupportedFeature(what, hint=hint, table=location, column=variants[0])
    unknown = sorted(set(protocol.get("readerFeatures") or ()) - _READABLE)
    reader, writer = protocol["minReaderVersion"], protocol["minWriterVersion"]
    if reader > _NEWEST_READER:
        unknown.append(f"protocol version {reader}")
    if not unknown and writer > _NEWEST_WRITER:
        # Writers of that version may log actions that are unknown here.
        what = f"The Delta table at {location} demands protocol version {writer} of its writers."
        hint = f"This Lakeward knows writer versions up to {_NEWEST_WRITER}. Upgrade Lakeward."
        raise UnsupportedFeature(what, hint=hint, table=location, features=[f"writer {writer}"])
    if unknown:
        what = f"The Delta table at {location} demands {', '.join(unknown)} of its readers."
        hint = "Upgrade Lakeward, or leave the table outside the lake."
        raise UnsupportedFeature(what, hint=hint, table=location, features=unknown)


def check_writable(definition: Definition, table: str) -> None:
    """Raise `UnsupportedFeature` if the embedded engine cannot write the table."""
    unknown = known(definition, _unknown)
    if unknown:
        what = f"Table {table} uses {', '.join(unknown)}, which the embedded engine cannot write."
        raise UnsupportedFeature(what, hint="Write it with Spark.", table=table, features=unknown)


def is_writable(definition: Definition) -> bool:
    """Return whether the embedded engine can write the table."""
    return not known(definition, _unknown)


def _unknown(definition: Definition) -> list[str]:
    unknown = sorted(active_features(definition) - _WRITABLE)
    generated = [f for f in definition.schema.walk() if is_generated(f)]
    found = {*definition.derived, *definition.computed}
    strange = [f.name for f in generated if f.id not in found]
    if strange:
        unknown.append(f"the generated column {strange[0]}")
    if not is_counted(definition):
        unknown.append(
            "identity columns that were adopted before the lake could count (adopt again)"
        )
    if definition.identity and not is_guarded(definition.protocol):
        # Another engine could give out the same values at the same time.
        unknown.append("identity columns without the guard")
    defaults = computed_defaults(definition.schema)
    unknown += [f"the default {text} of column {name}" for name, text in defaults]
    unknown += [f"the {kind} column {name}" for name, kind in only_shown(definition.schema)]
    if any("delta.invariants" in f.metadata for f in definition.schema.walk()):
        unknown.append("column invariants")
    return unknown


def _with_features(version: int, reader: set[str] | None, writer: set[str]) -> dict[str, Any]:
    """Return a protocol that lists its writer features, and its reader features unless None."""
    out: dict[str, Any] = {"minReaderVersion": version, "minWriterVersion": 7}
    if reader is not None:
        out["readerFeatures"] = sorted(reader)
    out["writerFeatures"] = sorted(writer)
    return out
