"""Folds the commits of a Delta working copy into one commit against the copy's base version.

Files that were added and removed again on the copy are left out. If the copy changed the deletion
vector of a file of the base, the file is removed and added again under the same path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.errors import CorruptTable
from lakeward.formats.delta.branch import BRANCHED
from lakeward.formats.delta.row_tracking import DOMAIN, without_ids
from lakeward.formats.delta.values import vector_id
from lakeward.formats.delta.vectors import absolute_vector, moved_vector
from lakeward.formats.net import Net
from lakeward.model.file import DataFile, LoggedFile, is_full
from lakeward.model.history import ForeignActions

Key = tuple[str, str | None]
"""A file on a copy: its path in the copy's log, and the id of its deletion vector."""
_MERGE: Final = "MERGE"


def net_of(
    commits: Iterable[ForeignActions],
    *,
    directory: str,
    root: str,
    base: Callable[[str], Sequence[LoggedFile]],
) -> Net:
    """Return the net effect of a copy's commits after its first. Raises `CorruptTable`.

    Args:
        commits: The commits, oldest first.
        directory: The copy's directory, relative to the table's.
        root: The table's full address.
        base: Returns the base's files at a path of the copy's log.
    """
    statements = [c for c in commits if c.info.operation != BRANCHED]
    replay = _Replay(root, base)
    for commit in statements:
        replay.take(commit)
    changing = [c for c in statements if c.info.data_change and _touches(c)]
    moving = [c for c in statements if not c.info.data_change and _touches(c)]
    has_files = len(changing) == 1 and (bool(changing[0].change_files) or not moving)
    only_adds = not any(c.removed or c.change_files for c in changing) and not moving
    definitions = [c.definition for c in statements if c.definition is not None]
    applications = {a.app_id: a for c in statements for a in c.app_transactions}
    return Net(
        added=tuple(replay.added(directory)),
        removed=tuple(replay.removed()),
        change_files=moved_all(changing[0].change_files, directory) if has_files else (),
        definition=definitions[-1] if definitions else None,
        app_transactions=tuple(applications[i] for i in sorted(applications)),
        statements=tuple(statements),
        data_change=bool(changing) or not moving,
        looks=any(_looks(c) for c in statements),
        has_feed=has_files or only_adds or not changing,
        domains={n: c for s in statements for n, c in s.domains.items() if n != DOMAIN},
        moves_new=replay.moves_new,
    )


def moved(file: DataFile, directory: str) -> DataFile:
    """Return a file that was written on a copy, with its path for the table's log."""
    vector = moved_vector(file.deletion_vector, directory)
    # Row ids that a copy assigned are private; the table assigns new ones.
    own = without_ids(file.extra)
    if is_full(file.path):
        return replace(file, deletion_vector=vector, extra=own)
    extra = {k: v for k, v in (own or {}).items() if k != "path"}
    path = f"{directory}/{file.path}"
    return replace(file, path=path, deletion_vector=vector, extra=extra or None)


def moved_all(files: Iterable[DataFile], directory: str) -> tuple[DataFile, ...]:
    """Return files that were written on a copy, with their paths for the table's log."""
    return tuple(moved(f, directory) for f in files)


@dataclass
class _Replay:
    """Collects the copy's files that are not the base's, and the base's files that it removed."""

    root: str
    base: Callable[[str], Sequence[LoggedFile]]
    moves_new: bool = False
    _new: dict[Key, DataFile] = field(default_factory=dict)
    _gone: dict[Key, LoggedFile] = field(default_factory=dict)

    def take(self, commit: ForeignActions) -> None:
        for path, vector in commit.removed:
            key = (path, vector)
            if self._new.pop(key, None) is not None:
                new = {f.path for f in commit.added} - {p for p, _ in commit.removed}
                self.moves_new = self.moves_new or bool(new)
            else:
                self._gone[key] = self._of_base(key, commit.version)
        for file in commit.added:
            key = (file.path, vector_id(file.deletion_vector))
            if self._gone.pop(key, None) is None and not self._is_base(key):
                self._new[key] = file

    def added(self, directory: str) -> Iterable[DataFile]:
        """Yield the files that are new, with their paths for the table's log."""
        for (path, _), file in self._new.items():
            known = self.base(path) if is_full(path) else ()
            if known:
                yield _again(file, known[0].file, self.root, directory)
            else:
                yield moved(file, directory)

    def removed(self) -> list[LoggedFile]:
        return sorted(self._gone.values(), key=lambda f: (f.added, f.ordinal))

    def _is_base(self, key: Key) -> bool:
        return is_full(key[0]) and self._found(key) is not None

    def _of_base(self, key: Key, version: int) -> LoggedFile:
        found = self._found(key)
        if found is None:
            what = f"Version {version} of the branch removes the file {key[0]}, which it never had."
            raise CorruptTable(what, hint="Drop the branch and begin again.", path=key[0])
        return found

    def _found(self, key: Key) -> LoggedFile | None:
        path, vector = key
        for file in self.base(path):
            if vector_id(absolute_vector(file.file.deletion_vector, self.root)) == vector:
                return file
        return None


def _touches(commit: ForeignActions) -> bool:
    return bool(commit.added or commit.removed or commit.change_files)


def _looks(commit: ForeignActions) -> bool:
    """Return whether a commit depends on rows that it read: it removed files, or is a merge.

    A merge that only inserted has read, too: it found that the inserted keys did not exist.
    """
    return commit.info.data_change and (bool(commit.removed) or commit.info.operation == _MERGE)


def _again(found: DataFile, known: DataFile, root: str, directory: str) -> DataFile:
    """Return a file of the base with its new deletion vector, under its path in the base."""
    vector = found.deletion_vector
    if vector_id(vector) == vector_id(absolute_vector(known.deletion_vector, root)):
        vector = known.deletion_vector
    else:
        vector = moved_vector(vector, directory)
    return replace(found, path=known.path, deletion_vector=vector, extra=known.extra)
