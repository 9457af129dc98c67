"""Tags of a lake: names for one consistent cut, which is kept as long as the tag exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.log import heads, positions, renames, tags
from lakeward.log.positions import Place
from lakeward.log.tags import LoggedTag
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_datetime, to_ms
from lakeward.write.commit.publications import follow_all
from lakeward.write.transaction.registration import LeaseKeeper


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one version of each of some tables.

    Attributes:
        moment: The time of the cut.
        versions: The version of each table, including dropped ones, by the name it had then.
        whole: Whether it covers all tables that the lake had then.
        actor: Who made it.
        message: Why.
        created: When it was made.
        names_now: The name of each table now, or its last one if it was dropped, by its name then.
    """

    name: str
    moment: datetime
    versions: Mapping[str, int]
    whole: bool
    actor: str
    message: str | None
    created: datetime
    names_now: Mapping[str, str]


class Tagging:
    """The part of a lake's interface that manages tags."""

    _context: LakeContext
    _keeper: LeaseKeeper

    def tag(
        self,
        name: str,
        *,
        at: datetime | str | int | None = None,
        tables: Sequence[str] | None = None,
        message: str | None = None,
        replace: bool = False,
    ) -> Tag:
        """Tag one consistent cut over all tables, or over some.

        The tagged versions can be read as long as the tag exists: vacuum and expiry keep them.
        Other engines see it as a tag of each Iceberg table.

        Args:
            name: Letters, digits, `_`, `-` and `.`; nothing that looks like a version or a time.
            at: The cut, as in `snapshot`; now when None.
            tables: Only these tables; None for all that the lake had then.
            message: Why.
            replace: Move a tag that exists.

        Raises:
            InvalidName: The name cannot be used.
            AlreadyExists: There is a tag of this name, or an Iceberg table has a ref of this name.
            TableNotFound: The cut has no such table.
        """
        from lakeward.write.tables.tag import checked_name
        from lakeward.write.tables.tag import tag as make

        self._context.database.check_writable()
        checked, flag = checked_name(name), arguments.flag(replace, "replace")
        arguments.optional_text(message, "message")
        cut = LakeSnapshot(self._context, self._keeper, self._newest() if at is None else at)
        if tables is not None:
            cut = cut.only(arguments.texts(tables, "tables"))
        found = list(cut)
        if not found:
            what = f"The tag {checked!r} would name no table."
            raise InvalidInput(what, hint="Make a table first, or choose a later moment.")
        with cut:
            versions = {t.log_head.table_id: t.version for t in found}
            newest = max(t.timestamp_ms for t in found)
            moment = max(now_ms(), newest) if at is None else to_ms(cut.moment or newest)
            new = LoggedTag(
                name=checked,
                moment_ms=moment,
                whole=tables is None,
                actor=self._context.actor,
                message=message,
                created_ms=now_ms(),
                position=cut.position,
                versions=versions,
            )
            make(self._context, new, replace_known=flag)
        return _tag(new, cut.versions, cut.names_now)

    def tags(self) -> list[Tag]:
        """Return the tags, ordered by the time of their cuts."""
        with self._context.database.read() as session:
            found = tags.every(session)
            ids = {table_id for one in found for table_id in one.versions}
            known = {i: heads.ever_by_id(session, i) for i in ids}
            names = renames.AllNames(session)
        out = []
        for one in found:
            tables = sorted((str(names.at(known[i], v)), v, i) for i, v in one.versions.items())
            versions = {then: version for then, version, _ in tables}
            now = {then: str(known[i].name) for then, _, i in tables}
            out.append(_tag(one, versions, now))
        return out

    def untag(self, name: str) -> None:
        """Drop a tag; the versions it named are no longer kept for it.

        Raises:
            NotFound: There is no such tag.
        """
        from lakeward.write.tables.tag import untag

        self._context.database.check_writable()
        untag(self._context, name)

    def _newest(self) -> Place | None:
        """Return the place of the newest transaction, None if there is none.

        The cut after it has all earlier transactions, so that `changes` can continue after it.
        """
        follow_all(self._context)
        with self._context.database.read() as session:
            return positions.newest(session)


def _tag(found: LoggedTag, versions: Mapping[str, int], names_now: Mapping[str, str]) -> Tag:
    return Tag(
        found.name,
        to_datetime(found.moment_ms),
        versions,
        found.whole,
        found.actor,
        found.message,
        to_datetime(found.created_ms),
        names_now,
    )
