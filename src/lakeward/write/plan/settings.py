"""Properties that belong to one format: refused on the other, and spelled as its engines read them.

A property of the other format would be kept and mean nothing to anybody, so it is refused before
the table is made. What the lake keeps among an Iceberg table's properties for itself has words of
its own in `lake.create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.formats.iceberg.definition import COMMENT, FORMAT_VERSION, OWN_PREFIXES
from lakeward.formats.iceberg.document import PREVIOUS_VERSIONS
from lakeward.formats.iceberg.names import NAME_MAPPING
from lakeward.write.plan.options import (
    APPEND_ONLY,
    ICEBERG_COMPRESSION,
    ICEBERG_TARGET_FILE_SIZE,
    size_bytes,
)

_ALIKE: Final = "The policies target_file_size, compression and append_only are for both formats."
_ELSEWHERE: Final = ("write.data.path", "write.metadata.path", "write.object-storage.enabled")
_DATA_FORMAT: Final = "write.format.default"


def delta_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Checked properties of a Delta table.

    Raises:
        InvalidInput: One is Iceberg's.
    """
    for key in properties:
        if key.startswith("write.") or key in (FORMAT_VERSION, APPEND_ONLY):
            raise _foreign(key, "Delta", "Iceberg")
    return dict(properties)


def iceberg_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """Checked properties of an Iceberg table, as other engines read them.

    Raises:
        InvalidInput: One is Delta's, makes no sense, or is not set by hand.
        UnsupportedFeature: It asks for what the embedded engine does not write.
    """
    for key in properties:
        if key.startswith("delta."):
            raise _foreign(key, "Iceberg", "Delta")
        if key in (COMMENT, NAME_MAPPING) or key.startswith(OWN_PREFIXES):
            what = f"Property {key} is not set by hand."
            hint = "Use `comment=` and `constraints=`; the rest follows from the schema."
            raise InvalidInput(what, hint=hint, property=key)
    _check_files(properties)
    # The version is a word of the document, not one of its properties.
    out = {k: v for k, v in properties.items() if k != FORMAT_VERSION}
    if ICEBERG_TARGET_FILE_SIZE in out:
        out[ICEBERG_TARGET_FILE_SIZE] = str(
            size_bytes(out[ICEBERG_TARGET_FILE_SIZE], ICEBERG_TARGET_FILE_SIZE)
        )
    if out.get(ICEBERG_COMPRESSION, "").lower() == "none":
        out[ICEBERG_COMPRESSION] = "uncompressed"
    return out


def _check_files(properties: Mapping[str, str]) -> None:
    for key in _ELSEWHERE:
        if properties.get(key, "false") != "false":
            what = f"Property {key} puts files elsewhere; the lake keeps them below the table."
            hint = "Leave it out, or adopt a table that Spark made so."
            raise UnsupportedFeature(what, hint=hint, property=key)
    if properties.get(_DATA_FORMAT, "parquet").lower() != "parquet":
        what = f"Property {_DATA_FORMAT} is {properties[_DATA_FORMAT]!r}."
        raise UnsupportedFeature(what, hint="The lake reads Parquet only.", property=_DATA_FORMAT)
    if not properties.get(PREVIOUS_VERSIONS, "1").isdigit():
        what = f"Property {PREVIOUS_VERSIONS} is {properties[PREVIOUS_VERSIONS]!r}."
        raise InvalidInput(what, hint="Use a whole number.", property=PREVIOUS_VERSIONS)


def _foreign(key: str, table: str, owner: str) -> InvalidInput:
    what = f"Property {key} is for {owner} tables, and this is to be a {table} table."
    return InvalidInput(what, hint=f"Leave it out. {_ALIKE}", property=key)
