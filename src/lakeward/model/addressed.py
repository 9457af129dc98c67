"""A user's reference to files on an object store that contain rows."""

from __future__ import annotations

from collections.abc import Mapping

from lakeward.model import arguments


class Files:
    """Files of rows on an object store, with the options to access the store.

    Where data is expected, the address alone is enough if the lake's own storage options, or the
    environment, give access to the store.

    Args:
        place: An address or a pattern of files: `s3://bucket/in/*.parquet`.
        storage_options: By the names that the provider's tools use; the environment completes them.
    """

    __slots__ = ("place", "storage_options")

    def __init__(self, place: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        self.place = arguments.text(place, "place")
        given = arguments.mapping(storage_options, "storage_options")
        self.storage_options: Mapping[str, str] = given

    def __repr__(self) -> str:
        # Options may be secrets.
        return f"Files({self.place!r})"
