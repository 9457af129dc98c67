"""Reads an existing `_delta_log` into the log's types: its whole history, or one foreign commit.

`read_history` starts at the first commit, or else at the oldest checkpoint after which no commit is
missing; the files of that checkpoint count as added by its version. Timestamps are those of the
commits, except that each is at least a millisecond later than the previous one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import orjson

from lakeward.errors import CorruptTable, FileMissing
from lakeward.formats.delta.checkpoint import last_checkpoint_path
from lakeward.formats.delta.damage import damaged, understanding
from lakeward.formats.delta.identity import as_domain, without_marks
from lakeward.formats.delta.parse import (
    Actions,
    FileReader,
    actions_of,
    commit_info_of,
    definition_of,
    removed_key,
    timestamp_of,
    trust_in,
)
from lakeward.formats.delta.protocol import check_readable
from lakeward.formats.delta.publication import commit_path
from lakeward.formats.delta.restore import State, state_of
from lakeward.formats.delta.segment import Checkpoint, Segment, segment_of
from lakeward.formats.delta.values import vector_id
from lakeward.model import progress
from lakeward.model.commit import AppTransaction, Commit
from lakeward.model.definition import Definition
from lakeward.model.file import LIVE, DataFile, LoggedFile
from lakeward.model.history import ForeignActions, TableHistory
from lakeward.storage.base import Storage

_PROBES: Final = 16
_ATTEMPTS: Final = 3
_READERS: Final = 8
_WINDOW: Final = 256


def read_history(storage: Storage, location: str) -> TableHistory:
    """Return a table's history from its published log.

    Raises `TableNotFound`, `CorruptTable`, and `UnsupportedFeature` for features that are unknown.
    """
    location = location.rstrip("/")
    failure = seen = None
    for _ in range(_ATTEMPTS):
        segment = segment_of(storage, location)
        if segment == seen:
            break
        # Another program may be writing or cleaning up, so a second try may succeed.
        seen = segment
        try:
            return _read_segment(storage, segment)
        except CorruptTable as error:
            failure = error
        except FileMissing as error:
            failure = damaged(location, None, f"a file that it needs is missing ({error.what})")
    raise failure or damaged(location, None, "it changes faster than it can be read")


def read_commit(
    storage: Storage,
    location: str,
    version: int,
    definition: Definition,
    *,
    uuid: str,
    after_ms: int = -1,
    marks: Mapping[int, int] | None = None,
) -> ForeignActions | None:
    """Return one published commit, or None if it does not exist.

    `definition` is the one before the commit, `after_ms` the timestamp of the previous commit,
    `uuid` the table's id, for commits without a transaction id, and `marks` are the high watermarks
    of identity columns before the commit. Raises `CorruptTable`, `UnsupportedFeature`.
    """
    location = location.rstrip("/")
    try:
        data = storage.read(commit_path(location, version))
    except FileMissing:
        return None
    with understanding(location, version):
        actions = _commit_actions(data)
        written = timestamp_of(actions.info)
        if written is None:
            written = segment_of(storage, location).commits.get(version, 0)
        reader = _Interpreter(location, uuid, definition, after_ms, marks)
        return reader.commit(version, actions, written)


def newest_version(storage: Storage, location: str, *, at_least: int) -> int:
    """Return the newest version of a log that is known to have the version `at_least`.

    If commits after `at_least` were cleaned up, the newest version is found by its checkpoint;
    `read_commit` then returns None for the versions in between.
    """
    location = location.rstrip("/")
    for version in range(at_least + 1, at_least + 1 + _PROBES):
        if not storage.exists(commit_path(location, version)):
            if version == at_least + 1 and _hint(storage, location) > at_least:
                break
            return version - 1
    return max(at_least, segment_of(storage, location).version)


def _hint(storage: Storage, location: str) -> int:
    """Return the version in `_last_checkpoint`, which may be stale; -1 if there is none."""
    try:
        found = orjson.loads(storage.read(last_checkpoint_path(location)))
        version = found["version"]
    except (FileMissing, KeyError, TypeError, ValueError):
        return -1
    return version if isinstance(version, int) else -1


def _read_segment(storage: Storage, segment: Segment) -> TableHistory:
    location, failure = segment.location, None
    for start in segment.starts():
        replay = _Replay(segment)
        if start is not None:
            try:
                state = state_of(storage, location, start)
                replay.begin(start.version, state, *_info_under(storage, segment, start))
            except CorruptTable as error:  # a later checkpoint may be sound
                failure = failure or error
                continue
        first = 0 if start is None else start.version + 1
        found = _read_commits(storage, location, first, segment.version)
        for version, data in progress.counted(found, segment.version + 1 - first):
            with understanding(location, version):
                replay.commit(version, _commit_actions(data))
        return replay.finish()
    raise failure or damaged(location, None, "it has neither commits nor checkpoints")


def _info_under(
    storage: Storage, segment: Segment, start: Checkpoint
) -> tuple[dict[str, Any] | None, int]:
    """Return the `commitInfo` of a checkpoint's version, if it still exists, and its timestamp.

    A checkpoint may be written, or copied, much later; then the next commit bounds the timestamp.
    """
    info = _info_at(storage, segment, start.version)
    made = timestamp_of(info)
    if made is not None:
        return info, made
    following = timestamp_of(_info_at(storage, segment, start.version + 1))
    if following is None:
        following = segment.commits.get(start.version + 1, start.modified_ms + 1)
    return info, max(0, min(start.modified_ms, following - 1))


def _info_at(storage: Storage, segment: Segment, version: int) -> dict[str, Any] | None:
    if version not in segment.commits:
        return None
    try:
        return _commit_actions(storage.read(commit_path(segment.location, version))).info
    except (FileMissing, ValueError):
        return None


def _read_commits(
    storage: Storage, location: str, first: int, last: int
) -> Iterator[tuple[int, bytes]]:
    versions = iter(range(first, last + 1))

    def read(version: int) -> tuple[int, bytes]:
        return version, storage.read(commit_path(location, version))

    pool = ThreadPoolExecutor(_READERS, "lakeward-history")
    try:
        while window := list(islice(versions, _WINDOW)):
            yield from pool.map(read, window)
    finally:
        # No waiting: the garbage collector may close this generator in one of the pool's threads.
        pool.shutdown(wait=False, cancel_futures=True)


def _commit_actions(data: bytes) -> Actions:
    if not data or data.isspace():
        message = "its commit is empty"
        raise ValueError(message)
    return actions_of(data)


class _Interpreter:
    """Turns actions into the log's types under the current definition, which they may change."""

    def __init__(
        self,
        location: str,
        uuid: str,
        definition: Definition | None,
        after_ms: int,
        marks: Mapping[int, int] | None = None,
    ) -> None:
        self.uuid = uuid
        self.name: str | None = None
        self.marks: dict[int, int] = {}
        self.definition = definition
        self.after_ms = after_ms
        self._known = dict(marks or {})
        self._location = location
        self._files = FileReader(definition) if definition else None

    def define(self, actions: Actions) -> Definition | None:
        """Apply protocol and metadata; return the new definition, or None if it is unchanged."""
        if self.definition is not None and actions.metadata is None and actions.protocol is None:
            return None
        new = definition_of(actions.metadata, actions.protocol, self.definition)
        new, marks = without_marks(new)
        # A dropped column keeps its mark: a restore may bring the column back.
        self.marks = {**self._known, **marks} if marks else {}
        self._known.update(marks)
        check_readable(new, self._location)
        if actions.metadata is not None:
            self.uuid = str(actions.metadata.get("id") or self.uuid)
            name = actions.metadata.get("name")
            self.name = None if name is None else str(name)
        if new == self.definition:
            return None
        self.definition, self._files = new, FileReader(new)
        return new

    def files(self) -> FileReader:
        assert self._files is not None  # noqa: S101  `define` came first
        return self._files

    def moment(self, written: int) -> int:
        """Return the next commit's timestamp: `written`, or 1 ms after the last one if later."""
        self.after_ms = max(written, self.after_ms + 1)
        return self.after_ms

    def commit(self, version: int, actions: Actions, written: int) -> ForeignActions:
        self.marks = {}
        definition = self.define(actions)
        info = commit_info_of(actions.info, self.uuid, version)
        trust, files = trust_in(info), self.files()
        added: dict[tuple[str, str | None], DataFile] = {}
        for action in actions.adds:
            file = files.add(action, trust)
            key = (file.path, vector_id(file.deletion_vector))
            added.pop(key, None)
            added[key] = file
        changes = [a.get("dataChange") for a in (*actions.adds, *actions.removes)]
        if changes and not any(c is not False for c in changes):
            info = replace(info, data_change=False)
        return ForeignActions(
            version=version,
            timestamp_ms=self.moment(written),
            info=info,
            added=tuple(added.values()),
            removed=tuple(dict.fromkeys(removed_key(a) for a in actions.removes)),
            definition=definition,
            app_transactions=actions.app_transactions(),
            change_files=tuple(files.change(a) for a in actions.changes),
            domains={**actions.domain_changes(), **as_domain(self.marks)},
            uuid=self.uuid if actions.metadata is not None else None,
            name=self.name if actions.metadata is not None else None,
        )


class _Replay:
    """Collects a history version by version."""

    def __init__(self, segment: Segment) -> None:
        self._segment = segment
        self._interpreter = _Interpreter(segment.location, "", None, -1)
        self._definitions: list[tuple[int, Definition]] = []
        self._commits: list[Commit] = []
        self._applications: list[tuple[int, AppTransaction]] = []
        self._domains: dict[str, str] = {}
        self._files: list[tuple[DataFile, int, int]] = []
        self._removed: list[int] = []
        self._live: dict[tuple[str, str | None], int] = {}

    def begin(self, version: int, state: State, info: dict[str, Any] | None, written: int) -> None:
        """Start from the state of a checkpoint."""
        interpreter = self._interpreter
        with understanding(self._segment.location, version):
            definition = interpreter.define(state.actions)
            assert definition is not None  # noqa: S101  the first one is always new
            self._definitions.append((version, definition))
            self._add(version, state.files(interpreter.files()))
            domains = {**state.actions.domain_changes(), **as_domain(interpreter.marks)}
            self._take(version, state.actions.app_transactions(), domains)
            about = commit_info_of(info, interpreter.uuid, version)
        self._commits.append(Commit(version, interpreter.moment(written), about, domains=domains))

    def commit(self, version: int, actions: Actions) -> None:
        """Apply the next commit."""
        written = timestamp_of(actions.info)
        if written is None:
            written = self._segment.commits[version]
        found = self._interpreter.commit(version, actions, written)
        if found.definition is not None:
            self._definitions.append((version, found.definition))
        for key in found.removed:
            self._end(key, version)
        self._add(version, found.added)
        self._take(version, found.app_transactions, found.domains)
        self._commits.append(
            Commit(
                version,
                found.timestamp_ms,
                found.info,
                app_transactions=found.app_transactions,
                change_files=found.change_files,
                domains=found.domains,
            )
        )

    def finish(self) -> TableHistory:
        """Return the history up to the last commit."""
        ends = zip(self._files, self._removed, strict=True)
        return TableHistory(
            uuid=self._interpreter.uuid,
            name=self._interpreter.name,
            first_version=self._commits[0].version,
            version=self._commits[-1].version,
            definitions=self._definitions,
            commits=self._commits,
            files=[LoggedFile(file, added, nr, end) for (file, added, nr), end in ends],
            app_transactions=self._applications,
            domains=self._domains,
        )

    def _add(self, version: int, files: Iterator[DataFile] | tuple[DataFile, ...]) -> None:
        for ordinal, file in enumerate(files):
            key = (file.path, vector_id(file.deletion_vector))
            self._end(key, version)
            self._live[key] = len(self._files)
            self._files.append((file, version, ordinal))
            self._removed.append(LIVE)

    def _end(self, key: tuple[str, str | None], version: int) -> None:
        found = self._live.pop(key, None)
        if found is not None:
            self._removed[found] = version

    def _take(
        self,
        version: int,
        applications: tuple[AppTransaction, ...],
        domains: Mapping[str, str | None],
    ) -> None:
        self._applications.extend((version, a) for a in applications)
        for name, configuration in domains.items():
            if configuration is None:
                self._domains.pop(name, None)
            else:
                self._domains[name] = configuration
