"""What a published log tells of a table: its whole history, or one commit that somebody made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakeward.model.commit import AppTransaction, Commit, CommitInfo
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile


@dataclass(frozen=True)
class TableHistory:
    """All that a table's log still tells.

    Attributes:
        uuid: The table's id.
        name: Its name, where its writer gave one.
        first_version: The oldest version known.
        version: The newest.
        definitions: From which version on each holds; the first from `first_version`.
        commits: One for each version, with its change files; other actions are in `files` and
            `definitions`.
        files: Every file that was ever seen, in the order of `added` and `ordinal`.
        app_transactions: Each with the version that recorded it.
        domains: Configurations of `domainMetadata` that hold at the newest version.
    """

    uuid: str
    name: str | None
    first_version: int
    version: int
    definitions: list[tuple[int, Definition]]
    commits: list[Commit]
    files: list[LoggedFile]
    app_transactions: list[tuple[int, AppTransaction]]
    domains: dict[str, str]


@dataclass(frozen=True, slots=True)
class ForeignActions:
    """One published commit, as it would be ratified.

    Attributes:
        version: Of the commit.
        timestamp_ms: Later than the commit before.
        info: What it tells of itself.
        added: Its files, in order; each file's place is its ordinal.
        removed: Path and deletion-vector identity (`values.vector_id`) of the files that end here,
            those that `added` replaces under the same path and vector not among them.
        definition: The new one, where it changed.
        app_transactions: How far applications got.
        change_files: The rows that changed, where it tells.
        domains: Changed `domainMetadata`; None where one was removed.
        uuid: The table's id, where the commit names it.
        name: The table's name, where the commit has one.
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
