"""Definitions of new Delta tables, and of tables that get the guard.

`partition_by="day(ts)"` becomes a generated column `ts_day`, by which the table is partitioned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.delta.altering import FEATURES, as_asked, check_own
from lakeward.formats.delta.generated import (
    derived_of,
    generated_field,
    spelled,
    with_generated,
    without_marks,
)
from lakeward.formats.delta.identity import is_identity
from lakeward.formats.delta.mapping import MODE
from lakeward.formats.delta.protocol import (
    ICT,
    ICT_PROPERTY,
    extended,
    guarded,
    is_guarded,
    new_protocol,
    writer_features,
)
from lakeward.formats.delta.schema import EXPRESSION
from lakeward.formats.partitioning import Partitioning, check_partition_name, named_terms
from lakeward.formats.properties import (
    BLOOM,
    CHANGE_FEED,
    CHECKPOINT_INTERVAL,
    COMPRESSION,
    DELTA_APPEND_ONLY,
    LOG_RETENTION,
    MERGE_ON_READ,
    RETENTION,
    STATS_COLUMNS,
    TARGET_FILE_SIZE,
    VECTOR_FRACTION,
)
from lakeward.model.commit import Head
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile
from lakeward.model.schema import Schema
from lakeward.model.transform import SUFFIXES, Rules, Transform

_MAX_ID: Final = "delta.columnMapping.maxColumnId"
_KEPT: Final = (ICT_PROPERTY, "delta.inCommitTimestamp")
"""Prefixes of the properties whose current values stay when a table is restored."""


class DeltaDefinitions:
    """The part of the format contract that defines tables."""

    policies: ClassVar[Mapping[str, str]] = {
        "target_file_size": TARGET_FILE_SIZE,
        "compression": COMPRESSION,
        "checkpoint_interval": CHECKPOINT_INTERVAL,
        "append_only": DELTA_APPEND_ONLY,
        "change_data_feed": CHANGE_FEED,
        "merge_on_read": MERGE_ON_READ,
        "merge_on_read_fraction": VECTOR_FRACTION,
        "column_mapping": MODE,
        "retention": RETENTION,
        "log_retention": LOG_RETENTION,
        "stats_columns": STATS_COLUMNS,
        "bloom_filters": BLOOM,
    }
    policies_of_others: ClassVar[tuple[str, ...]] = ()
    features: ClassVar[Mapping[str, tuple[str, str]]] = FEATURES

    def partition(self, schema: Schema, terms: Sequence[str], *, guard: bool) -> Partitioning:
        """Return a new table's partitioning, with a generated column for each transform."""
        ids: list[int] = []
        for term, source in named_terms(schema, terms):
            transform = Transform(term.name, term.width, Rules.SPARK)
            if term.name == "identity":
                transform.check(source.type, source.name)
                ids.append(source.id)
                continue
            name = source.name + SUFFIXES[term.name]
            new = generated_field(schema.last_id + 1, name, transform, source, guard=guard)
            there = schema.by_name.get(name)
            if there is not None and there.metadata.get(EXPRESSION) == new.metadata[EXPRESSION]:
                ids.append(there.id)
                continue
            check_partition_name(name, transform, source, schema, {})
            schema = Schema((*schema.fields, new), new.id)
            ids.append(new.id)
        if len(set(ids)) < len(ids):
            what = "A column is named twice in partition_by."
            raise InvalidInput(what, hint="Leave one of them out.")
        if ids and len(ids) >= len(schema):
            what = "A table needs a column that it is not partitioned by."
            raise InvalidInput(what)
        return Partitioning(schema, tuple(ids))

    def define(
        self,
        parts: Partitioning,
        properties: Mapping[str, str],
        constraints: Mapping[str, str],
        comment: str | None,
        *,
        guard: bool,
    ) -> Definition:
        """Return a new table's definition; raise `InvalidInput` for a property of Iceberg."""
        for key in properties:
            check_own(key)
        parts = replace(parts, schema=spelled(parts.schema))
        _check_identity(parts, guard=guard)
        definition = Definition(
            schema=parts.schema,
            partition_by=parts.partition_by,
            properties={**properties, ICT_PROPERTY: "true"} if guard else dict(properties),
            constraints=constraints,
            comment=comment,
            derived=parts.derived,
        )
        protocol = new_protocol(definition, guard=guard)
        derived = {**parts.derived, **derived_of(parts.schema, protocol)}
        return as_asked(replace(definition, protocol=protocol, derived=derived))

    def guarded(self, definition: Definition, version: int, timestamp_ms: int) -> Definition:
        """Return the definition with the guard, which keeps other writers out from `version` on."""
        properties = dict(definition.properties)
        if (
            ICT not in writer_features(definition.protocol)
            or properties.get(ICT_PROPERTY) != "true"
        ):
            properties[ICT_PROPERTY] = "true"
            # For commits before this version, readers use the modification times of files.
            properties["delta.inCommitTimestampEnablementVersion"] = str(version)
            properties["delta.inCommitTimestampEnablementTimestamp"] = str(timestamp_ms)
        protocol = guarded(definition.protocol)
        schema = without_marks(definition.schema)
        return with_generated(
            replace(definition, schema=schema, properties=properties, protocol=protocol)
        )

    def restored(self, current: Definition, wanted: Definition) -> Definition:
        """Return the wanted definition with the current guard, features and highest column id."""
        if is_guarded(current.protocol) and not is_guarded(wanted.protocol):
            wanted = self.guarded(wanted, 0, 0)
        kept = {k: v for k, v in wanted.properties.items() if not k.startswith(_KEPT)}
        kept |= {k: v for k, v in current.properties.items() if k.startswith(_KEPT)}
        highest = [d.properties[_MAX_ID] for d in (current, wanted) if _MAX_ID in d.properties]
        if _MAX_ID in kept:
            kept[_MAX_ID] = str(max(map(int, highest)))
        last_id = max(wanted.schema.last_id, current.schema.last_id)
        made = replace(
            wanted,
            schema=Schema(wanted.schema.fields, last_id),
            properties=kept,
            protocol=current.protocol,
            created_ms=current.created_ms,
        )
        return replace(made, protocol=extended(made))

    def is_guarded(self, definition: Definition) -> bool:
        """Return whether a definition has the writer feature that is the guard."""
        return is_guarded(definition.protocol)

    def clone(
        self,
        context: LakeContext,
        source: Head,
        version: int,
        definition: Definition,
        files: Sequence[LoggedFile],
    ) -> tuple[Definition, list[DataFile]]:
        """Return a guarded definition, and the files with their full addresses as paths."""
        from lakeward.formats.delta.branch import absolute, branch_definition, check_branchable

        check_branchable(definition, str(source.name))
        plain = branch_definition(definition)
        properties = {**plain.properties, ICT_PROPERTY: "true"}
        new = replace(plain, protocol=guarded(plain.protocol), properties=properties)
        root = context.storage.uri(source.location)
        return new, [absolute(f.file, root, new) for f in files]


def _check_identity(parts: Partitioning, *, guard: bool) -> None:
    """Raise if an identity column is a partition column, or if the table has no guard."""
    found = [f for f in parts.schema.fields if is_identity(f)]
    by = next((f.name for f in found if f.id in parts.partition_by), None)
    if by is not None:
        what = f"A table cannot be partitioned by its identity column {by}."
        raise InvalidInput(what, hint="Each row would be a partition.", column=by)
    if found and not guard:
        what = f"Column {found[0].name} is an identity column, and the table has no guard."
        hint = "Create it with guard=True: other engines could give out the same values."
        raise UnsupportedFeature(what, hint=hint, column=found[0].name)
