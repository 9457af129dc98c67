"""Changes of a Delta table's definition.

The first rename or drop of a column enables column mapping by name: fields keep the names that they
have in files as physical names, and new fields get physical names that no field ever had, so that
no file is rewritten. A wider type enables type widening; the field's metadata records the old type.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.column_properties import with_renamed
from lakeward.formats.delta.defaults import with_defaults
from lakeward.formats.delta.generated import with_generated
from lakeward.formats.delta.mapping import MAPPED_ID, MODE, SETTINGS
from lakeward.formats.delta.protocol import extended, has_in_commit_timestamps
from lakeward.formats.delta.row_tracking import tracked
from lakeward.formats.delta.schema import delta_type_name, physical_name
from lakeward.formats.properties import (
    APPEND_ONLY,
    CHANGE_FEED,
    CHECKPOINT_POLICY,
    IN_COMMIT_TIMESTAMPS,
    MERGE_ON_READ,
    ROW_TRACKING,
    SNAPSHOT_AGE,
    SNAPSHOTS,
    TYPE_WIDENING,
    check_known,
    foreign_property,
)
from lakeward.model.definition import Definition
from lakeward.model.evolution.alterations import (
    AddColumn,
    AddPartitionField,
    Alteration,
    ChangeType,
    DropColumn,
    DropPartitionField,
    EnableFeature,
    RenameColumn,
    SetProperty,
    UnsetProperty,
)
from lakeward.model.evolution.fit import Misfit, misfits
from lakeward.model.evolution.paths import Place, each_field, find, parts_of, with_field
from lakeward.model.schema import Schema
from lakeward.model.types import Field, Ids, Struct

PHYSICAL: Final = f"{SETTINGS}physicalName"
_MAX_ID: Final = f"{SETTINGS}maxColumnId"
_WIDENING: Final = TYPE_WIDENING
_TYPE_CHANGES: Final = "delta.typeChanges"
FEATURES: Final = {
    "change_data_feed": (CHANGE_FEED, "true"),
    "deletion_vectors": (MERGE_ON_READ, "true"),
    "v2_checkpoint": (CHECKPOINT_POLICY, "v2"),
    "column_mapping": (MODE, "name"),
    "type_widening": (TYPE_WIDENING, "true"),
    "in_commit_timestamps": (IN_COMMIT_TIMESTAMPS, "true"),
    "row_tracking": (ROW_TRACKING, "true"),
}
"""For each feature, the property and the value that enable it."""
_BY_PROPERTY: Final = ("change_data_feed", "deletion_vectors", "v2_checkpoint")
_ENABLING: Final = {said: name for name, said in FEATURES.items() if name not in _BY_PROPERTY}
"""Features that need more than their property, by that property and its value."""
_OF_SPARK: Final = ("identity_columns", "clustering", "variant")
_OF_ICEBERG: Final = ("format-version", APPEND_ONLY, SNAPSHOTS, SNAPSHOT_AGE)
_KEPT: Final = (SETTINGS, _WIDENING, "delta.enableInCommitTimestamps", "delta.inCommitTimestamp")


class DeltaAlterations:
    """The part of the format contract that changes definitions."""

    def keeps(self, key: str) -> bool:
        """Return whether a table property is set by Delta itself, never by users."""
        return key.startswith((*_KEPT, "delta.feature.", "delta.rowTracking."))

    def alter(self, definition: Definition, change: Alteration) -> Definition:
        """Return the definition after a change, with the protocol that it needs."""
        from lakeward.model.evolution.apply import applied

        features: tuple[str, ...] = ()
        match change:
            case AddPartitionField() | DropPartitionField():
                what = "A Delta table keeps its partitioning."
                hint = "Make a table that is partitioned so, and copy the rows; or use Iceberg."
                raise UnsupportedFeature(what, hint=hint)
            case EnableFeature(feature):
                return _enabled(definition, feature)
            case SetProperty(key, value) if (key, value) in _ENABLING:
                return _enabled(definition, _ENABLING[key, value])
            case SetProperty(key=key) | UnsetProperty(key=key):
                _check_property(change)
            case RenameColumn(path=path) | DropColumn(path=path):
                find(definition.schema, path)
                definition = mapped(definition)
            case _:
                pass
        after = applied(definition, change)
        if isinstance(change, RenameColumn):
            after = with_renamed(definition, after, change)
        if isinstance(change, AddColumn):
            after = _with_new_names(after)
        if isinstance(change, ChangeType):
            after = _retyped(definition, after, change)
        if after.properties.get(_WIDENING) == "true":
            features = ("typeWidening",)
        return _finished(after, *features)

    def misfit(self, old: Definition, new: Definition, *, looked: bool = False) -> Misfit | None:
        """Return why files of `old` are not valid under `new`, also by physical names."""
        found = next(misfits(old, new, looked=looked), None)
        return found or next(_other_names(old.schema, new.schema), None)


def mapped(definition: Definition) -> Definition:
    """Return the definition with column mapping by name; physical names are the current names."""
    if definition.properties.get(MODE, "none") != "none":
        return definition

    def named(field: Field) -> Field:
        names = {MAPPED_ID: field.id, PHYSICAL: field.name}
        return replace(field, metadata={**field.metadata, **names})

    schema = _each_named(definition.schema, named)
    properties = {**definition.properties, MODE: "name", _MAX_ID: str(schema.last_id)}
    return _finished(replace(definition, schema=schema, properties=properties))


def as_asked(definition: Definition) -> Definition:
    """Return a new table's definition with the features enabled that its properties ask for."""
    mode = definition.properties.get(MODE, "none")
    if mode != "none":
        found = mapped(replace(definition, properties={**definition.properties, MODE: "none"}))
        definition = _finished(replace(found, properties={**found.properties, MODE: mode}))
    if definition.properties.get(ROW_TRACKING) == "true":
        definition = tracked(definition)
    widened = definition.properties.get(_WIDENING) == "true"
    return _finished(definition, *(["typeWidening"] if widened else []))


def _with_new_names(definition: Definition) -> Definition:
    """Return the definition with physical names and ids for fields that lack them, if mapped."""
    if definition.properties.get(MODE, "none") == "none":
        return definition

    # An adopted table has its own ids, also for columns that were dropped.
    given = [int(f.metadata.get(MAPPED_ID, 0)) for f in definition.schema.walk()]
    ids = Ids(max([int(definition.properties.get(_MAX_ID, 0)), *given]))

    def named(field: Field) -> Field:
        if PHYSICAL in field.metadata:
            return field
        names = {MAPPED_ID: ids.next(), PHYSICAL: f"col-{uuid.uuid4()}"}
        return replace(field, metadata={**field.metadata, **names})

    schema = _each_named(definition.schema, named)
    properties = {**definition.properties, _MAX_ID: str(ids.last)}
    return replace(definition, schema=schema, properties=properties)


def _each_named(schema: Schema, change: Callable[[Field], Field]) -> Schema:
    """Return the schema with `change` applied to every field that has a name in Delta."""
    unnamed = {part.id for field in schema.walk() for part in _unnamed_parts(field)}
    return each_field(schema, lambda f: f if f.id in unnamed else change(f))


def _unnamed_parts(field: Field) -> Sequence[Field]:
    return () if isinstance(field.type, Struct) else parts_of(field.type)


def _retyped(before: Definition, after: Definition, change: ChangeType) -> Definition:
    """Record the old type in the field's metadata (`delta.typeChanges`), if type names differ."""
    old, new = find(before.schema, change.path), find(after.schema, change.path)
    types = (delta_type_name(old.field.type), delta_type_name(new.field.type))
    if types[0] == types[1]:
        return after
    entry = {"fromType": types[0], "toType": types[1]}
    owner, inside = _owner(new)
    if inside:
        entry["fieldPath"] = inside
    known = owner.metadata.get(_TYPE_CHANGES) or []
    noted = replace(owner, metadata={**owner.metadata, _TYPE_CHANGES: [*known, entry]})
    properties = {**after.properties, _WIDENING: "true"}
    return replace(after, schema=with_field(after.schema, noted), properties=properties)


def _owner(place: Place) -> tuple[Field, str]:
    """Return the nearest field that has metadata in Delta, and the path from it to the place."""
    chain = [*place.parents, place.field]
    names: list[str] = []
    while len(chain) > 1 and not isinstance(chain[-2].type, Struct):
        names.insert(0, chain.pop().name)
    return chain[-1], ".".join(names)


def _finished(definition: Definition, *features: str) -> Definition:
    """Return the definition with the protocol, defaults and derived columns that it requires."""
    definition = replace(definition, schema=with_defaults(definition.schema))
    if definition.properties.get(MODE, "none") != "none":
        features = (*features, "columnMapping")
    return with_generated(replace(definition, protocol=extended(definition, *features)))


def _enabled(definition: Definition, feature: str) -> Definition:
    if feature in _BY_PROPERTY:
        key, value = FEATURES[feature]
        properties = {**definition.properties, key: value}
        return _finished(replace(definition, properties=properties))
    if feature == "column_mapping":
        return mapped(definition)
    if feature == "type_widening":
        properties = {**definition.properties, _WIDENING: "true"}
        return _finished(replace(definition, properties=properties), "typeWidening")
    if feature == "row_tracking":
        return _finished(tracked(definition))
    if feature == "in_commit_timestamps" and has_in_commit_timestamps(definition):
        return definition
    raise _no_feature(feature)


def _no_feature(feature: str) -> InvalidInput:
    known = f"These can be enabled: {', '.join(FEATURES)}."
    if feature in _OF_SPARK or feature == "in_commit_timestamps":
        what = f"The embedded engine cannot enable {feature}."
        hint = f"Make the table with Spark and adopt it. {known}"
        return UnsupportedFeature(what, hint=hint, feature=feature)
    what = f"Delta tables have no feature {feature!r}."
    return InvalidInput(what, hint=known, feature=feature)


def check_own(key: str) -> None:
    """Raise `InvalidInput` for a property that only Iceberg tables have."""
    if key.startswith("write.") or key in _OF_ICEBERG:
        raise foreign_property(key, "Delta", "Iceberg")


def _check_property(change: SetProperty | UnsetProperty) -> None:
    key = change.key
    check_own(key)
    for (known, value), feature in _ENABLING.items():
        if key == known:
            is_unset = isinstance(change, UnsetProperty)
            reason = "cannot be unset" if is_unset else f"can only be set to {value!r}"
            what = f"Property {key} {reason}."
            hint = f"Set it to {value}, or use enable({feature!r}), to enable the feature."
            raise InvalidInput(what, hint=hint, property=key)
    if key.startswith(_KEPT):
        what = f"Property {key} is not set by hand."
        raise InvalidInput(what, hint="Delta sets it with the feature.", property=key)
    check_known(key)


def _other_names(old: Schema, new: Schema) -> Iterator[Misfit]:
    """Yield fields that would be read from files under the name of another column."""
    known = {f.id: physical_name(f) for f in old.walk()}
    taken = {physical_name(f) for f in old.fields}
    top = {f.id for f in new.fields}
    for field in new.walk():
        name = physical_name(field)
        if known.get(field.id, name) != name or (
            field.id in top and field.id not in known and name in taken
        ):
            yield Misfit(f"put column {field.name} in the place of another one", field.name)
