"""The formats that tables can have, by name; the module of a format is loaded when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from lakeward.errors import UnsupportedFeature
from lakeward.formats.delta.light import LightDelta
from lakeward.formats.iceberg.light import LightIceberg

if TYPE_CHECKING:
    from lakeward.formats.base import Format
    from lakeward.formats.light import LightFormat
    from lakeward.model.commit import Head

LIGHT: Final[dict[str, LightFormat]] = {f.name: f for f in (LightDelta(), LightIceberg())}
"""The light parts of all formats, by name."""


class _Formats(Mapping[str, "Format"]):
    """All formats by name; looking one up loads it."""

    def __getitem__(self, name: str) -> Format:
        return _loaded(name)

    def __contains__(self, name: object) -> bool:
        return name in LIGHT

    def __iter__(self) -> Iterator[str]:
        return iter(LIGHT)

    def __len__(self) -> int:
        return len(LIGHT)


FORMATS: Final[Mapping[str, Format]] = _Formats()


def format_of(head: Head) -> Format:
    """Return the format of a table's definition."""
    return _loaded(head.format)


def publishers(head: Head) -> list[Format]:
    """Return the formats in which a table is published."""
    return list(map(_loaded, head.publications))


def light_format_of(head: Head) -> LightFormat:
    """Return the light part of a table's format."""
    return LIGHT[head.format]


def light_publishers(head: Head) -> list[LightFormat]:
    """Return the light parts of the formats in which a table is published."""
    return [LIGHT[name] for name in head.publications]


def format_named(name: str) -> Format:
    """Return the format of a name; raise `UnsupportedFeature` if there is none."""
    if name not in LIGHT:
        what = f"Tables of format {name!r} cannot be made."
        raise UnsupportedFeature(what, hint="Use 'delta' or 'iceberg'.", format=name)
    return _loaded(name)


@cache
def _loaded(name: str) -> Format:
    if name == LightDelta.name:
        from lakeward.formats.delta.format import DeltaFormat

        return DeltaFormat()
    if name == LightIceberg.name:
        from lakeward.formats.iceberg.format import IcebergFormat

        return IcebergFormat()
    raise KeyError(name)
