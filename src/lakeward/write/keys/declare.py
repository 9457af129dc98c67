"""Checks declarations of keys: foreign keys need a unique key to refer to."""

from __future__ import annotations

from collections.abc import Iterable

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, UnsupportedFeature
from lakeward.log import definitions, foreign_keys, heads
from lakeward.log.database import Session
from lakeward.model.commit import Head
from lakeward.model.constraints import ForeignKey, key_fields, unique_keys
from lakeward.model.constraints import foreign_keys as foreign_keys_of
from lakeward.model.definition import Definition
from lakeward.model.names import TableName


def check_references(
    context: LakeContext, session: Session, name: TableName, new: Definition, *, guarded: bool
) -> None:
    """Raise `InvalidInput` if a foreign key of a definition refers to no unique key.

    The other table must have a unique key of these columns, with the same types, and both tables
    must be guarded (else `UnsupportedFeature`): an open table commits alone.
    """
    for constraint, key in foreign_keys_of(new).items():
        other = TableName.parse(key.references)
        head = heads.find(session, other)
        if other == name:
            target, is_guarded = new, guarded
        elif head is None:
            what = f"Foreign key {constraint} refers to table {other}, which is not there."
            raise InvalidInput(what, hint="Make that table first.", constraint=constraint)
        else:
            target, is_guarded = context.definition(session, head), head.guarded
        if not (guarded and is_guarded):
            what = f"Foreign key {constraint} of {name} needs guarded tables on both sides."
            hint = "An open table cannot commit together with others. Guard it first."
            raise UnsupportedFeature(what, hint=hint, constraint=constraint)
        check_target(new, target, constraint, key)


def lock_references(
    session: Session, name: TableName, new: Definition, others: Iterable[Head] = ()
) -> None:
    """Lock other tables, and those that foreign keys of a definition refer to, in order of ids."""
    named = {TableName.parse(key.references) for key in foreign_keys_of(new).values()}
    found = (heads.find(session, other) for other in named - {name})
    wanted = {head.table_id: head for head in (*found, *others) if head is not None}
    for _, head in sorted(wanted.items()):
        heads.lock(session, head.table_id, head.name)


def check_not_referred(session: Session, name: TableName, doing: str) -> None:
    """Raise `InvalidInput` if another table has a foreign key to the table.

    `doing` completes the message: the table cannot be `dropped`, for example.
    """
    for table_id, constraint in foreign_keys.referring_to(session, name):
        head = heads.by_id(session, table_id)
        if head is not None and head.name != name:
            what = (
                f"Foreign key {constraint} of {head.name} refers to {name}: it cannot be {doing}."
            )
            hint = f"Drop {head.name} or its foreign key first."
            raise InvalidInput(what, hint=hint, table=str(name), constraint=constraint)


def check_still_referable(session: Session, name: TableName, new: Definition) -> None:
    """Raise `InvalidInput` if a foreign key of another table would refer to no unique key.

    `new` is the next definition of the table that foreign keys refer to.
    """
    for table_id, constraint in foreign_keys.referring_to(session, name):
        head = heads.by_id(session, table_id)
        if head is not None and head.name != name:
            _, own = definitions.at(session, table_id, head.version)
            key, shown = foreign_keys_of(own)[constraint], f"{constraint} of {head.name}"
            check_target(own, new, shown, key, f"Drop the foreign key of {head.name} first.")


def check_target(
    own: Definition, target: Definition, name: str, key: ForeignKey, hint: str | None = None
) -> None:
    """Raise `InvalidInput` if a foreign key refers to no unique key of the same types.

    Args:
        own: The definition of the table that has the foreign key.
        target: The definition of the table that it refers to.
        name: The name of the foreign key, for errors.
        key: The foreign key.
        hint: What to do instead; to declare the unique key if None.
    """
    mine = key_fields(own.schema, key.columns, name)
    theirs = key_fields(target.schema, key.key, name)
    for a, b in zip(mine, theirs, strict=True):
        if a.type != b.type:
            what = (
                f"Foreign key {name}: column {a.name} is {a.type},"
                f" and {b.name} of {key.references} is {b.type}."
            )
            raise InvalidInput(what, hint="Give both the same type.", constraint=name)
    if not any(set(u.columns) == set(key.key) for u in unique_keys(target).values()):
        shown = ", ".join(key.key)
        what = (
            f"Foreign key {name} refers to ({shown}) of {key.references}, which is no unique key."
        )
        declare = f"Declare it there: lw.Unique({', '.join(map(repr, key.key))})."
        raise InvalidInput(what, hint=hint or declare, constraint=name)
