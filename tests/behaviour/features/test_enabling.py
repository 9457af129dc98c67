"""Features of Delta tables are enabled on tables with rows, by name or by Delta's property."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lakeward as lw
from lakeward.errors import InvalidInput, UnsupportedFeature
from tests.behaviour.lakes import append, ids, unchanged
from tests.support.delta_rows import row_ids

pytestmark = pytest.mark.formats("delta")

_FEATURES = {
    "change_data_feed": ("delta.enableChangeDataFeed", "true", "changeDataFeed"),
    "column_mapping": ("delta.columnMapping.mode", "name", "columnMapping"),
    "deletion_vectors": ("delta.enableDeletionVectors", "true", "deletionVectors"),
    "in_commit_timestamps": ("delta.enableInCommitTimestamps", "true", "inCommitTimestamp"),
    "row_tracking": ("delta.enableRowTracking", "true", "rowTracking"),
    "type_widening": ("delta.enableTypeWidening", "true", "typeWidening"),
}


def _by_name(lake: lw.Lake, table: str, feature: str) -> None:
    lake.table(table).alter().enable(feature).commit()


def _by_property(lake: lw.Lake, table: str, feature: str) -> None:
    key, value, _ = _FEATURES[feature]
    lake.table(table).alter().set_property(key, value).commit()


def _by_sql(lake: lw.Lake, table: str, feature: str) -> None:
    key, value, _ = _FEATURES[feature]
    with lake.transaction() as tx:
        tx.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{key}' = '{value}')")


@pytest.mark.parametrize("way", [_by_name, _by_property, _by_sql])
@pytest.mark.parametrize("feature", _FEATURES)
@pytest.mark.local
def test_a_feature_is_enabled(
    shared_lake: lw.Lake, name: str, feature: str, way: Callable[[lw.Lake, str, str], None]
) -> None:
    key, value, written = _FEATURES[feature]
    table = shared_lake.create(name, "id int64")
    append(shared_lake, name, {"id": [1]})

    way(shared_lake, name, feature)

    assert written in table.definition.protocol["writerFeatures"]
    assert table.properties[key] == value
    append(shared_lake, name, {"id": [2]})
    assert ids(shared_lake, name) == [1, 2]
    if feature == "row_tracking":
        assert sorted(number for number, _ in row_ids(table).values()) == [0, 1]


@pytest.mark.parametrize(
    "feature", ["column_mapping", "in_commit_timestamps", "row_tracking", "type_widening"]
)
@pytest.mark.before_the_store
def test_a_property_of_a_feature_has_only_the_value_that_enables_it(
    shared_lake: lw.Lake, name: str, feature: str
) -> None:
    key, value, _ = _FEATURES[feature]
    other = "none" if key.endswith("mode") else "false"
    table = shared_lake.create(name, "id int64")
    with unchanged(shared_lake), pytest.raises(InvalidInput, match=f"only be set to '{value}'"):
        table.alter().set_property(key, other).commit()
    with unchanged(shared_lake), pytest.raises(InvalidInput, match="cannot be unset"):
        table.alter().unset_property(key).commit()


def test_in_commit_timestamps_of_an_open_table_are_left_to_other_engines(
    shared_lake: lw.Lake, name: str
) -> None:
    table = shared_lake.create(name, "id int64", guard=False)
    with pytest.raises(UnsupportedFeature, match="in_commit_timestamps") as caught:
        table.alter().set_property("delta.enableInCommitTimestamps", "true").commit()
    assert "Spark" in (caught.value.hint or "")
