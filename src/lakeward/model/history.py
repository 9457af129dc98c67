"""A table's history, or one commit, as read from the format's own published log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.model.commit import AppTransaction, Commit, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile


@dataclass(frozen=True)
class TableHistory:
    """All versions in the published log of a table: in its `_delta_log` or Iceberg metadata."""

    uuid: str
    name: str | None
    """The name that the log has for the table, if any."""
    first_version: int
    version: int
    definitions: list[tuple[int, Definition]]
    """The definitions, each with the version that introduced it."""
    commits: list[Commit]
    """One for each version, with change files; other actions are in `files` and `definitions`."""
    files: list[LoggedFile]
    """Every file of any version, in the order of `added` and `ordinal`."""
    app_transactions: list[tuple[int, AppTransaction]]
    """Progress of applications, each with the version that recorded it."""
    domains: dict[str, str]
    """Domain metadata of the newest version, by name."""


@dataclass(frozen=True, slots=True)
class ForeignActions:
    """One published commit of a foreign writer, as it would be ratified.

    `removed` has path and deletion-vector identity of each removed file, without those that `added`
    replaces under the same path and vector. The value of a removed domain is None.
    """

    version: int
    timestamp_ms: int
    info: CommitInfo
    added: tuple[DataFile, ...] = ()
    removed: tuple[tuple[str, str | None], ...] = ()
    definition: Definition | None = None
    app_transactions: tuple[AppTransaction, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    domains: Mapping[str, str | None] = field(default_factory=dict)
    uuid: str | None = None
    name: str | None = None
