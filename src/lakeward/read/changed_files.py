"""Reads the commits of a range, in pages, with the files that describe what they changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lakeward.log import commits, definitions, files, retired
from lakeward.log.commits import LoggedCommit
from lakeward.log.database import Session
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """A commit with the files that describe what it changed.

    Attributes:
        commit: The commit's row in the log.
        definition: The table's definition at the commit.
        before: The definition at the previous version; the same unless the commit changed it.
        whole: Whether `removed` and `added` are all files of the two versions, also shared ones.
    """

    commit: LoggedCommit
    definition: Definition
    before: Definition
    added: tuple[LoggedFile, ...]
    removed: tuple[LoggedFile, ...]
    told: tuple[DataFile, ...]
    whole: bool = False


def changed_files(
    session: Session,
    table_id: int,
    found: Sequence[LoggedCommit],
    known: Definitions,
    shown: Definition,
) -> list[ChangedFiles]:
    """Return the files of consecutive commits; none for a commit that only moved rows.

    A commit that drops a column of `shown`, or brings it back as a restore does, changes the values
    of all rows: it gets all files of both versions.
    """
    if not found:
        return []
    low, high = found[0].version, found[-1].version
    added = _by(files.added_between(session, table_id, low - 1, high), lambda f: f.added)
    removed = _by(files.removed_between(session, table_id, low - 1, high), lambda f: f.removed)
    told = commits.change_files_between(session, table_id, low, high)
    out = []
    for commit in found:
        v = commit.version
        definition, before = known.at(v), known.at(v - 1) or known.at(v)
        assert definition is not None  # noqa: S101  every version has one
        assert before is not None  # noqa: S101  the same
        if _blanks_or_returns(before, definition, shown):
            retired.check_changes(session, table_id, v)
            came, gone = (tuple(files.at(session, table_id, n)) for n in (v, v - 1))
            out.append(ChangedFiles(commit, definition, before, came, gone, (), whole=True))
            continue
        if not commit.info.data_change:
            out.append(ChangedFiles(commit, definition, before, (), (), ()))
            continue
        retired.check_changes(session, table_id, v)
        came, gone = (tuple(some.get(v, ())) for some in (added, removed))
        out.append(ChangedFiles(commit, definition, before, came, gone, tuple(told.get(v, ()))))
    return out


def _blanks_or_returns(before: Definition, after: Definition, shown: Definition) -> bool:
    """Return whether a field of `shown`, at any depth, is dropped, or returns after a drop."""
    old, new = before.schema, after.schema
    if before is after or old == new:
        return False
    return any((i in old.by_id) != (i in new.by_id) for i in shown.schema.by_id if i <= old.last_id)


class Definitions:
    """The definitions of a table by version, each read once."""

    def __init__(self, session: Session, table_id: int) -> None:
        self._ranges = definitions.of_table(session, table_id)

    def at(self, version: int) -> Definition | None:
        """Return the definition of a version, or None if there is no such version."""
        found = (d for since, until, d in self._ranges if since <= version < until)
        return next(found, None)


def _by(
    source: Iterable[LoggedFile], version: Callable[[LoggedFile], int]
) -> dict[int, list[LoggedFile]]:
    out: dict[int, list[LoggedFile]] = {}
    for file in source:
        out.setdefault(version(file), []).append(file)
    return out
