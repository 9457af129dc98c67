"""Creates and drops tags: one database transaction, with the heads of their tables locked.

The tag's rows and its published form, refs of Iceberg tables, take effect together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from lakeward.context import LakeContext
from lakeward.errors import AlreadyExists, InvalidInput, InvalidName, LakewardError, OutcomeUnknown
from lakeward.formats.registry import publishers
from lakeward.log import audit, heads, positions, retired, tags
from lakeward.log.database import Session
from lakeward.log.tags import LoggedTag
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_ms
from lakeward.model.commit import Head
from lakeward.model.steps import reach
from lakeward.read.moments import no_tag
from lakeward.write.commit import publications

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_RESERVED: Final = frozenset({"main", "now", "latest"})


def checked_name(name: object) -> str:
    """Return a tag's name if valid; raise `InvalidName` if it looks like a version or a time."""
    text = arguments.text(name, "name")
    hint = "Use letters, digits, '_', '-' and '.', at most 128: `2026-close`, `v1.4`."
    if not _NAME.fullmatch(text):
        what = f"{text!r} is not a name for a tag."
        raise InvalidName(what, hint=hint, name=text)
    meaning = "a version" if text.isdecimal() else "a time" if _is_time(text) else None
    if text.lower() in _RESERVED:
        meaning = "the newest version"
    if meaning is not None:
        what = f"{text!r} cannot name a tag: it would be taken for {meaning}."
        raise InvalidName(what, hint="Add a word to it, as in `close-of-…`.", name=text)
    return text


def tag(context: LakeContext, new: LoggedTag, *, replace_known: bool) -> None:
    """Create a tag; raise `AlreadyExists` if the name exists, unless `replace_known` is set.

    Raises `VersionNotFound` if a version is retired. On errors nothing was created.
    """
    with _locked(context) as (session, changed):
        known = tags.find(session, new.name)
        if known is not None and not replace_known:
            what = f"The lake has a tag {new.name!r} already."
            hint = "Choose another name, or give replace=True (--replace) to move it."
            raise AlreadyExists(what, hint=hint, tag=new.name)
        if positions.of_transaction(session, new.name) is not None:
            what = f"{new.name!r} cannot name a tag: a transaction has this id."
            raise InvalidName(what, hint="Choose another name.", name=new.name)
        before = {} if known is None else known.versions
        wanted: dict[int, int | None] = {**dict.fromkeys(before), **new.versions}
        tags.delete(session, new.name)
        tags.insert(session, new)
        for table_id, version in sorted(new.versions.items()):
            # Vacuum holds this lock while it retires versions.
            heads.share(session, table_id)
            retired.check(session, heads.ever_by_id(session, table_id), version)
        for head in _live_heads(context, session, wanted):
            may_be_known = replace_known or head.table_id in before
            named = {new.name: wanted[head.table_id]}
            _publish(context, session, head, named, changed, replace_known=may_be_known)
        reach("tag.inserted")


def untag(context: LakeContext, name: str) -> None:
    """Drop a tag, so that it no longer protects its versions; raise `NotFound` if there is none."""
    arguments.text(name, "name")
    with _locked(context) as (session, changed):
        known = tags.find(session, name)
        if known is None:
            raise no_tag(session, name)
        tags.delete(session, name)
        for head in _live_heads(context, session, known.versions):
            _publish(context, session, head, {name: None}, changed, replace_known=True)
        reach("tag.inserted")


class _Changed:
    """The heads whose published metadata changed, and new metadata files, deleted on errors."""

    def __init__(self) -> None:
        self.heads: list[Head] = []
        self.files: list[str] = []


@contextmanager
def _locked(context: LakeContext) -> Iterator[tuple[Session, _Changed]]:
    """Yield a write session that excludes other tag changes; afterwards publish what changed."""
    changed, is_committing = _Changed(), False
    try:
        with context.database.write() as session:
            context.database.lock_schema(session)
            yield session, changed
            is_committing = True
    except BaseException as error:
        # An interrupt may come after the commit. `expire` deletes the files if there was none.
        if not is_committing or _is_refused(error):
            with suppress(Exception):
                context.storage.delete(changed.files)
        raise
    reach("tag.committed")
    for head in changed.heads:
        publications.publish_backlog(context, head)


def _is_refused(error: BaseException) -> bool:
    """Return whether an error of a commit says that nothing was committed."""
    return isinstance(error, LakewardError) and not isinstance(error, OutcomeUnknown)


def _live_heads(
    context: LakeContext, session: Session, wanted: Mapping[int, object]
) -> Iterator[Head]:
    """Yield the locked heads of those tables that are not dropped, by ascending id."""
    for table_id in sorted(wanted):
        found = heads.by_id(session, table_id)
        if found is not None:
            head = heads.lock(session, table_id, found.name)
            yield publications.take_over_or_refuse(context, session, head)


def _publish(
    context: LakeContext,
    session: Session,
    head: Head,
    named: Mapping[str, int | None],
    changed: _Changed,
    *,
    replace_known: bool,
) -> None:
    pointer = head.pointer
    for publisher in publishers(head):
        head = publisher.publish_tags(
            context, session, head, named, changed.files, replace_known=replace_known
        )
    if head.pointer != pointer:
        changed.heads.append(head)
    for name, version in named.items():
        head = audit.record(
            session,
            head,
            at_ms=now_ms(),
            actor=context.actor,
            action="UNTAG" if version is None else "TAG",
            version=version,
            detail={"tag": name},
        )
    heads.advance(session, head)


def _is_time(text: str) -> bool:
    try:
        to_ms(text)
    except InvalidInput:
        return False
    return True
