"""The formats that tables can have, by name."""

from __future__ import annotations

from typing import Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.base import Format
from lakeward.formats.delta.format import DeltaFormat
from lakeward.formats.iceberg.format import IcebergFormat
from lakeward.model.commit import Head

FORMATS: Final[dict[str, Format]] = {f.name: f for f in (DeltaFormat(), IcebergFormat())}


def format_of(head: Head) -> Format:
    """Return the format whose rules a table's definition follows."""
    return FORMATS[head.format]


def publishers(head: Head) -> list[Format]:
    """Return the formats in which a table is published."""
    return [FORMATS[publication.format] for publication in head.publications]


def format_named(name: str) -> Format:
    """Return a format by the name that users give; raise `UnsupportedFeature` if there is none."""
    found = FORMATS.get(name)
    if found is None:
        what = f"Tables of format {name!r} cannot be made."
        raise UnsupportedFeature(what, hint="Use 'delta' or 'iceberg'.", format=name)
    return found
