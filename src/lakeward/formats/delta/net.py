"""What several commits on a working copy come to, against the version that it was made from.

Files that were added and removed again on the copy never were. A file of the base that comes again
with another deletion vector ends, and begins anew under its own path. What is left is one commit on
the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakeward.errors import CorruptTable
from lakeward.formats.delta.branch import BRANCHED
from lakeward.formats.delta.values import vector_id
from lakeward.formats.delta.vectors import absolute_vector, moved_vector
from lakeward.model.commit import AppTransaction
from lakeward.model.definition import Definition
from lakeward.model.file import DataFile, LoggedFile, is_full
from lakeward.model.history import ForeignActions

Key = tuple[str, str | None]
"""A file on a copy: its path as it is read there, and the identity of its deletion vector."""


@dataclass(frozen=True, slots=True)
class Net:
    """One commit that does what several did.

    Attributes:
        added: Files as the table's log names them.
        removed: Files of the base.
        change_files: The rows that changed, where the one statement that changed some tells them.
        definition: Of the copy at its end, where it changed.
        app_transactions: How far applications got.
        statements: The commits of the copy, in order.
        data_change: False where rows only moved.
        is_told: Whether readers of the change feed learn the right rows from `change_files`, or
            from the files added and removed where there are none. If not, the difference of rows
            must be told.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[LoggedFile, ...] = ()
    change_files: tuple[DataFile, ...] = ()
    definition: Definition | None = None
    app_transactions: tuple[AppTransaction, ...] = ()
    statements: tuple[ForeignActions, ...] = ()
    data_change: bool = True
    is_told: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left of what was done."""
        return not (self.added or self.removed or self.definition or self.app_transactions)


def net_of(
    commits: Iterable[ForeignActions],
    *,
    directory: str,
    root: str,
    base: Callable[[str], Sequence[LoggedFile]],
) -> Net:
    """The net effect of a copy's commits after its first.

    Args:
        commits: In order.
        directory: The copy's directory, below the table.
        root: The table's full address.
        base: The base's files at a path, as the copy names it.

    Raises:
        CorruptTable: The copy removed a file that it never had.
    """
    statements = [c for c in commits if c.info.operation != BRANCHED]
    replay = _Replay(root, base)
    for commit in statements:
        replay.take(commit)
    changing = [c for c in statements if c.info.data_change and _touches(c)]
    moving = [c for c in statements if not c.info.data_change and _touches(c)]
    told = len(changing) == 1 and (bool(changing[0].change_files) or not moving)
    implied = not any(c.removed or c.change_files for c in changing) and not moving
    definitions = [c.definition for c in statements if c.definition is not None]
    applications = {a.app_id: a for c in statements for a in c.app_transactions}
    return Net(
        added=tuple(replay.added(directory)),
        removed=tuple(replay.removed()),
        change_files=moved_all(changing[0].change_files, directory) if told else (),
        definition=definitions[-1] if definitions else None,
        app_transactions=tuple(applications[i] for i in sorted(applications)),
        statements=tuple(statements),
        data_change=bool(changing) or not moving,
        is_told=told or implied or not changing,
    )


def moved(file: DataFile, directory: str) -> DataFile:
    """A file that was written on a copy, as the table's log names it."""
    vector = moved_vector(file.deletion_vector, directory)
    if is_full(file.path):
        return replace(file, deletion_vector=vector)
    extra = {k: v for k, v in (file.extra or {}).items() if k != "path"}
    path = f"{directory}/{file.path}"
    return replace(file, path=path, deletion_vector=vector, extra=extra or None)


def moved_all(files: Iterable[DataFile], directory: str) -> tuple[DataFile, ...]:
    """The same for several."""
    return tuple(moved(f, directory) for f in files)


@dataclass
class _Replay:
    """The copy's files, as far as they are not the base's."""

    root: str
    base: Callable[[str], Sequence[LoggedFile]]
    _new: dict[Key, DataFile] = field(default_factory=dict)
    _gone: dict[Key, LoggedFile] = field(default_factory=dict)

    def take(self, commit: ForeignActions) -> None:
        for path, vector in commit.removed:
            key = (path, vector)
            if self._new.pop(key, None) is None:
                self._gone[key] = self._of_base(key, commit.version)
        for file in commit.added:
            key = (file.path, vector_id(file.deletion_vector))
            if self._gone.pop(key, None) is None and not self._is_base(key):
                self._new[key] = file

    def added(self, directory: str) -> Iterable[DataFile]:
        """The files that are new, as the table's log names them."""
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


def _again(found: DataFile, known: DataFile, root: str, directory: str) -> DataFile:
    """A file of the base with another deletion vector: its own path, spelled as it was."""
    vector = found.deletion_vector
    if vector_id(vector) == vector_id(absolute_vector(known.deletion_vector, root)):
        vector = known.deletion_vector
    else:
        vector = moved_vector(vector, directory)
    return replace(found, path=known.path, deletion_vector=vector, extra=known.extra)
