"""Changes of an Iceberg table's definition.

Columns are found in files by their ids, so renames, drops and wider types touch no file. Partition
fields are added and dropped for files that are written from then on; older files keep theirs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.column_properties import with_renamed
from lakeward.formats.iceberg.defining import FIRST_PARTITION_ID, check_key, checked_settings
from lakeward.formats.iceberg.definition import FORMAT_VERSION, ROW_IDS_SINCE, has_defaults
from lakeward.formats.iceberg.schema import INITIAL, STORED_AS, check_schema, with_defaults
from lakeward.formats.iceberg.upgrading import ROW_LINEAGE, upgraded
from lakeward.formats.partitioning import check_partition_name, named_terms
from lakeward.model.definition import Definition
from lakeward.model.derived import Derived
from lakeward.model.evolution.alterations import (
    AddPartitionField,
    Alteration,
    ChangeType,
    DropPartitionField,
    EnableFeature,
    RenameColumn,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.paths import find
from lakeward.model.transform import SUFFIXES, TIMES, Rules, Transform
from lakeward.model.types import Decimal, Field, Primitive

_WIDER: Final = {("int32", "int64"), ("float", "double")}
_SAME: Final = {("timestamp_ms", "timestamp"), ("timestamp_ms_ntz", "timestamp_ntz")}


class IcebergAlterations:
    """The methods of the Iceberg format that change definitions."""

    def alter(self, definition: Definition, change: Alteration) -> Definition:
        """Return the definition after a change; raise an error if Iceberg does not allow it."""
        from lakeward.model.evolution.apply import applied

        match change:
            case AddPartitionField(term):
                return _partitioned(definition, term)
            case DropPartitionField(term):
                return _unpartitioned(definition, term)
            case EnableFeature(feature) if feature == ROW_LINEAGE:
                return upgraded(definition, str(ROW_IDS_SINCE))
            case EnableFeature(feature):
                what = f"The embedded engine cannot enable {feature} on an Iceberg table."
                hint = (
                    f"It can enable {ROW_LINEAGE}, which is format version 3. The versions 2 and 3"
                    " have all their other features."
                )
                raise UnsupportedFeature(what, hint=hint, feature=feature)
            case SetProperty(key, value) if key == FORMAT_VERSION:
                return upgraded(definition, value)
            case SetProperty(key, value):
                value = checked_settings({key: value})[key]
                return applied(definition, SetProperty(key, value))
            case UnsetProperty(key):
                if key == FORMAT_VERSION:
                    what = "An Iceberg table always has a format version."
                    raise InvalidInput(what, hint="Set another one.", property=key)
                check_key(key)
            case ChangeType(path):
                _check_stored(find(definition.schema, path).field, path)
            case _:
                pass
        after = applied(definition, change)
        check_schema(after.schema)
        if isinstance(change, RenameColumn):
            after = with_renamed(definition, after, change)
        if isinstance(change, ChangeType):
            _check_wider(definition, after, change.path)
        if has_defaults(definition):
            return replace(after, schema=with_defaults(after.schema, definition.schema))
        return after

    def fills_older_rows(self, field: Field) -> bool:
        """Return whether the column has an initial default, which files without it have."""
        return INITIAL in field.metadata


def with_former_fields(restored: Definition, current: Definition) -> Definition:
    """Return a restored definition with all partition fields that the table ever had.

    The document keeps their specs, so their ids must never be given to other fields. A field whose
    column the restored definition lacks is left out.
    """
    derived = {
        own_id: replace(found, indexed=_is_indexed(own_id, current, restored))
        for own_id, found in {**restored.derived, **current.derived}.items()
        if found.source in restored.schema.by_id
    }
    return replace(restored, derived=derived)


def _is_indexed(own_id: int, *definitions: Definition) -> bool:
    """Return whether the files of all definitions have a value in the statistics index."""
    return all(own_id in d.derived and d.derived[own_id].indexed for d in definitions)


def _check_stored(field: Field, path: str) -> None:
    if STORED_AS in field.metadata:
        what = f"Column {path} has the Iceberg type {field.metadata[STORED_AS]}, which stays."
        raise InvalidInput(what, column=path)


def _check_wider(before: Definition, after: Definition, path: str) -> None:
    """Raise `InvalidInput` for a wider type that only other formats allow."""
    old, new = find(before.schema, path).field.type, find(after.schema, path).field.type
    if isinstance(old, Primitive) and isinstance(new, Primitive):
        allowed = (old.name, new.name) in _WIDER | _SAME or old == new
    else:
        allowed = isinstance(old, Decimal) and isinstance(new, Decimal) and old.scale == new.scale
    if not allowed:
        what = f"Column {path} cannot become {new}: it is {old}, and Iceberg does not widen that."
        hint = (
            "Iceberg widens int32 to int64, float to double, and decimals to more digits. Otherwise"
            " add a column of the new type, fill it with tx.update, and drop this one."
        )
        raise InvalidInput(what, hint=hint, column=path, reason="Iceberg does not widen that")


def _partitioned(definition: Definition, text: str) -> Definition:
    schema = definition.schema
    ((term, source),) = named_terms(schema, [text])
    transform = Transform(term.name, term.width, Rules.ICEBERG)
    transform.check(source.type, source.name)
    current = [definition.derived[i] for i in definition.partition_by]
    for other in current:
        same = other.transform == transform or {other.transform.name, term.name} <= TIMES
        if other.source == source.id and same:
            what = f"The table is partitioned by {other.transform.of(source.name)} already."
            hint = f"Drop it first: drop_partition_field({other.transform.of(source.name)!r})."
            raise InvalidInput(what, hint=hint, column=source.name)
    known = next(
        (
            i
            for i, d in definition.derived.items()
            if (d.source, d.transform) == (source.id, transform)
        ),
        None,
    )
    if known is not None:
        # A field that the table had before is the same one again.
        return replace(definition, partition_by=(*definition.partition_by, known))
    name = source.name + SUFFIXES[term.name]
    taken = {d.name.lower(): d.name for d in definition.derived.values()}
    if term.width is not None and name.lower() in taken:
        # A term of another width has or had the name: `id_bucket` and `id_bucket_8`.
        name = f"{name}_{term.width}"
    check_partition_name(name, transform, source, schema, taken)
    own_id = min(definition.derived, default=1 - FIRST_PARTITION_ID) - 1
    # Older files have no value, which the index would take for null.
    new = Derived(source.id, transform, name, indexed=False)
    return replace(
        definition,
        partition_by=(*definition.partition_by, own_id),
        derived={**definition.derived, own_id: new},
    )


def _unpartitioned(definition: Definition, text: str) -> Definition:
    wanted = text.replace(" ", "").lower()
    terms = {i: definition.term(i) for i in definition.partition_by}
    names = {i: definition.derived[i].name for i in definition.partition_by}
    found = [
        i
        for i in definition.partition_by
        if wanted in (terms[i].replace(" ", "").lower(), names[i].lower())
    ]
    if not found:
        what = f"The table is not partitioned by {text}."
        by = f"It is partitioned by {', '.join(terms.values())}." if terms else "It is not at all."
        raise InvalidInput(what, hint=by)
    (own_id,) = found
    # Files that are written from now on have no value, which the index would take for null.
    derived = {**definition.derived, own_id: replace(definition.derived[own_id], indexed=False)}
    left = tuple(i for i in definition.partition_by if i != own_id)
    return replace(definition, partition_by=left, derived=derived)
