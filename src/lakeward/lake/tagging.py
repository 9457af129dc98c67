"""Tags of a lake: names for one consistent cut, which is kept as long as the tag exists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, TableNotFound
from lakeward.lake.snapshot import LakeSnapshot
from lakeward.log import heads, tags
from lakeward.log.tags import LoggedTag
from lakeward.model import arguments
from lakeward.model.clock import now_ms, to_datetime, to_ms
from lakeward.model.names import TableName, hint_for_unknown
from lakeward.write.transaction.registration import LeaseKeeper


@dataclass(frozen=True, slots=True)
class Tag:
    """A name for one version of each of some tables.

    Attributes:
        moment: The time of the cut.
        versions: The version of each table, including dropped ones.
        whole: Whether it covers all tables that the lake had then.
        actor: Who made it.
        message: Why.
        created: When it was made.
    """

    name: str
    moment: datetime
    versions: Mapping[str, int]
    whole: bool
    actor: str
    message: str | None
    created: datetime


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
        with LakeSnapshot(self._context, self._keeper, at) as cut:
            found = {t.log_head.name: t for t in cut}
            if tables is not None:
                wanted = [TableName.parse(t) for t in arguments.texts(tables, "tables")]
                missing = next((t for t in wanted if t not in found), None)
                if missing is not None:
                    what = f"The lake has, or had then, no table {missing}."
                    hint = hint_for_unknown(missing, found)
                    raise TableNotFound(what, hint=hint, table=str(missing))
                found = {t: found[t] for t in wanted}
            if not found:
                what = f"The tag {checked!r} would name no table."
                raise InvalidInput(what, hint="Make a table first, or choose a later moment.")
            versions = {t.log_head.table_id: t.version for t in found.values()}
            newest = max(t.timestamp_ms for t in found.values())
            moment = max(now_ms(), newest) if cut.moment is None else to_ms(cut.moment)
            new = LoggedTag(
                checked, moment, tables is None, self._context.actor, message, now_ms(), versions
            )
            make(self._context, new, replace_known=flag)
        names = {str(n): t.version for n, t in sorted(found.items())}
        return _tag(new, names)

    def tags(self) -> list[Tag]:
        """Return the tags, ordered by the time of their cuts."""
        with self._context.database.read() as session:
            found = tags.every(session)
            ids = {table_id for one in found for table_id in one.versions}
            names = {i: str(heads.ever_by_id(session, i).name) for i in ids}
        return [
            _tag(one, dict(sorted((names[i], v) for i, v in one.versions.items()))) for one in found
        ]

    def untag(self, name: str) -> None:
        """Drop a tag; the versions it named are no longer kept for it.

        Raises:
            NotFound: There is no such tag.
        """
        from lakeward.write.tables.tag import untag

        self._context.database.check_writable()
        untag(self._context, name)


def _tag(found: LoggedTag, versions: Mapping[str, int]) -> Tag:
    return Tag(
        found.name,
        to_datetime(found.moment_ms),
        versions,
        found.whole,
        found.actor,
        found.message,
        to_datetime(found.created_ms),
    )
