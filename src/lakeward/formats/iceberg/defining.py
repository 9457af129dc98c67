"""Definitions of new Iceberg tables.

`partition_by="day(ts)"` becomes a partition field, which in Iceberg is no column of the table.
Properties that the lake itself sets are rejected; `lake.create` has arguments for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.definition import (
    COMMENT,
    DEFAULTS_SINCE,
    FORMAT_VERSION,
    OWN_PREFIXES,
    check_writable,
    new_protocol,
    specs_of,
)
from lakeward.formats.iceberg.document import PREVIOUS_VERSIONS
from lakeward.formats.iceberg.expiry import limits
from lakeward.formats.iceberg.extra import check_installed
from lakeward.formats.iceberg.known_properties import check_spelling
from lakeward.formats.iceberg.metadata import document_of
from lakeward.formats.iceberg.names import NAME_MAPPING
from lakeward.formats.iceberg.publication import full_path
from lakeward.formats.iceberg.schema import check_schema, with_defaults
from lakeward.formats.iceberg.spec import parse_specs, specs_of_clone
from lakeward.formats.partitioning import Partitioning, check_partition_name, named_terms
from lakeward.formats.properties import (
    APPEND_ONLY,
    BLOOM,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    RETENTION,
    foreign_property,
    size_bytes,
)
from lakeward.log import commits
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import GENERATED_AS, IDENTITY_AS, Schema, indexable
from lakeward.model.transform import SUFFIXES, TIMES, Rules, Transform

FIRST_PARTITION_ID: Final = 1000
_ELSEWHERE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.enabled")
_DATA_FORMAT: Final = "write.format.default"


class IcebergDefinitions:
    """The part of the format contract that defines tables."""

    policies: ClassVar[Mapping[str, str]] = {
        "target_file_size": ICEBERG_TARGET_FILE_SIZE,
        "compression": ICEBERG_COMPRESSION,
        "append_only": APPEND_ONLY,
        "retention": RETENTION,
        "bloom_filters": BLOOM,
    }
    policies_of_others: ClassVar[tuple[str, ...]] = (
        *("checkpoint_interval", "change_data_feed", "column_mapping"),
        *("merge_on_read", "merge_on_read_fraction"),
    )

    features: ClassVar[Mapping[str, tuple[str, str]]] = {"row_lineage": (FORMAT_VERSION, "3")}

    def partition(self, schema: Schema, terms: Sequence[str], *, guard: bool) -> Partitioning:
        """Return a new table's partitioning, with a partition field for each term."""
        derived: dict[int, Derived] = {}
        taken: dict[str, str] = {}
        times: set[int] = set()
        for number, (term, source) in enumerate(named_terms(schema, terms)):
            transform = Transform(term.name, term.width, Rules.ICEBERG)
            transform.check(source.type, source.name)
            if term.name in TIMES and source.id in times:
                again = transform.of(source.name)
                what = f"{again} says again what another term of partition_by says."
                raise InvalidInput(what, hint="Keep the finest of them.", column=source.name)
            times |= {source.id} if term.name in TIMES else set()
            name = source.name + SUFFIXES[term.name]
            check_partition_name(name, transform, source, schema, taken)
            indexed = indexable(transform.result(source.type))
            derived[-FIRST_PARTITION_ID - number] = Derived(source.id, transform, name, indexed)
        return Partitioning(schema, tuple(derived), derived)

    def define(
        self,
        parts: Partitioning,
        properties: Mapping[str, str],
        constraints: Mapping[str, str],
        comment: str | None,
        *,
        guard: bool,
    ) -> Definition:
        """Return a new table's definition."""
        protocol = new_protocol(properties)
        settings = checked_settings(properties)
        keys = {GENERATED_AS, IDENTITY_AS}
        generated = next((f.name for f in parts.schema.fields if keys & f.metadata.keys()), None)
        if generated is not None:
            what = f"Column {generated} is generated, which Iceberg tables do not have."
            hint = "Make a Delta table, or write the values yourself."
            raise UnsupportedFeature(what, hint=hint, column=generated)
        schema = parts.schema
        if protocol[FORMAT_VERSION] >= DEFAULTS_SINCE:
            plain = tuple(replace(f, default=None) for f in schema.fields)
            schema = with_defaults(schema, Schema(plain, schema.last_id))
        check_schema(schema)
        check_installed()
        return Definition(
            schema=schema,
            partition_by=parts.partition_by,
            derived=parts.derived,
            properties=settings,
            constraints=constraints,
            comment=comment,
            protocol=protocol,
            whole_files=True,
        )

    def clone(
        self,
        context: LakeContext,
        source: Head,
        version: int,
        definition: Definition,
        files: Sequence[LoggedFile],
    ) -> tuple[Definition, list[DataFile]]:
        """Return the definition and the files of a version, with full addresses as their paths."""
        name = str(source.name)
        check_writable(definition, name)
        with context.database.read() as session:
            first = commits.one(session, source.table_id, 0)
        if first is None or first.info.adopted:
            what = (
                f"Table {name} was made by another engine; such Iceberg tables have no clones yet."
            )
            raise UnsupportedFeature(what, hint="Copy its rows into a new table.", table=name)
        if any(f.file.deletion_vector is not None for f in files):
            what = f"Version {version} of {name} has delete files, which cannot be shared."
            raise UnsupportedFeature(what, hint="Rewrite its files first.", table=name)
        specs = specs_of(document_of(context, source).body).values()
        listed, default = specs_of_clone(specs, definition)
        current = next(s for s in listed if s["spec-id"] == default)
        _, derived = parse_specs(listed, current, definition.schema)
        definition = replace(definition, derived=derived)
        root = context.storage.uri(source.location)
        return definition, [replace(f.file, path=full_path(f.file, root)) for f in files]


def checked_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Check a new table's properties; return them in the form that other engines read."""
    for key in properties:
        check_key(key)
        check_spelling(key)
    _check_files(properties)
    # The format version is a field of the document, not one of its properties.
    out = {k: v for k, v in properties.items() if k != FORMAT_VERSION}
    if ICEBERG_TARGET_FILE_SIZE in out:
        out[ICEBERG_TARGET_FILE_SIZE] = str(
            size_bytes(out[ICEBERG_TARGET_FILE_SIZE], ICEBERG_TARGET_FILE_SIZE)
        )
    if out.get(ICEBERG_COMPRESSION, "").lower() == "none":
        out[ICEBERG_COMPRESSION] = "uncompressed"
    return out


def check_limits(properties: Mapping[str, str]) -> None:
    """Raise `InvalidInput` if a property that limits what documents list has an unusable value."""
    limits(properties)
    if not properties.get(PREVIOUS_VERSIONS, "1").isdigit():
        what = f"Property {PREVIOUS_VERSIONS} is {properties[PREVIOUS_VERSIONS]!r}."
        raise InvalidInput(what, hint="Use a whole number.", property=PREVIOUS_VERSIONS)


def check_key(key: str) -> None:
    """Raise `InvalidInput` if users cannot set or unset the property of an Iceberg table."""
    if key.startswith("delta."):
        raise foreign_property(key, "Iceberg", "Delta")
    if key in (COMMENT, NAME_MAPPING) or key.startswith(OWN_PREFIXES):
        what = f"Property {key} is not set by hand."
        hint = "Use `comment=` and `constraints=`; the rest follows from the schema."
        raise InvalidInput(what, hint=hint, property=key)


def _check_files(properties: Mapping[str, str]) -> None:
    for key in _ELSEWHERE:
        if properties.get(key, "false") != "false":
            what = f"Property {key} puts files elsewhere; the lake keeps them below the table."
            hint = "Leave it out, or adopt a table that Spark made so."
            raise UnsupportedFeature(what, hint=hint, property=key)
    if properties.get(_DATA_FORMAT, "parquet").lower() != "parquet":
        what = f"Property {_DATA_FORMAT} is {properties[_DATA_FORMAT]!r}."
        raise UnsupportedFeature(what, hint="The lake reads Parquet only.", property=_DATA_FORMAT)
    check_limits(properties)
