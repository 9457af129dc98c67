"""Checks by which Spark refuses values of Delta's partition columns that would become null.

Spark writes an empty text in a partition column as null, and so does every reader of directories
with the name of the null partition. The embedded engine refuses both values; on Spark, the branch
of a transaction has a check for each such column, which is not committed to the table.
"""

from __future__ import annotations

from typing import Final

from lakeward.engines.arrow.partition import NULL_PARTITION
from lakeward.engines.spark.failures import PARTITION_CHECK
from lakeward.formats.delta.parse import CONSTRAINT
from lakeward.model.definition import Definition
from lakeward.model.quoting import identifier, literal

_CONVERTS: Final = "spark.databricks.delta.convertEmptyToNullForStringPartitionCol"
"""Whether Spark writes null for an empty text already before it checks rows."""


def partition_checks(definition: Definition) -> dict[str, str]:
    """Return the properties of a branch that check the partition columns of text."""
    wrong = f"{literal('')}, {literal(NULL_PARTITION)}"
    return {
        f"{CONSTRAINT}{PARTITION_CHECK}{f.id}": (
            f"{identifier(f.name)} IS NULL OR {identifier(f.name)} NOT IN ({wrong})"
        )
        for f in definition.partition_fields
        if f.id > 0 and str(f.type) == "string"
    }


def partition_settings(definition: Definition) -> dict[str, str]:
    """Return the settings of a session in which the checks see the values as they are given."""
    return {_CONVERTS: "false"} if partition_checks(definition) else {}
