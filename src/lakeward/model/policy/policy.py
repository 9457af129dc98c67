"""The policy of tables: rules for every write by every engine.

A policy is a frozen object. A field that is None is not set: a less specific policy, or the
default, applies. `Policy.of` takes a mapping with the same names, as in files and `lake.create`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model import arguments
from lakeward.model.constraint_kinds import Check, Constraint, ForeignKey, NotNull, Unique
from lakeward.model.policy.quantities import duration, duration_text, size

EVOLUTIONS: Final = (
    *("add_column", "drop_column", "rename_column", "move_column", "change_type"),
    *("set_nullable", "set_not_null", "set_default", "set_comment", "set_property"),
    *("add_constraint", "drop_constraint", "add_partition_field", "drop_partition_field"),
    "enable",
)
"""The changes of a definition that a policy can allow, named as the methods of `alter`."""
CODECS: Final = ("snappy", "zstd", "gzip", "lz4", "brotli", "none", "uncompressed")
_MAPPINGS: Final = ("none", "name", "id")
_DURATIONS: Final = ("retention", "log_retention")
_FLAGS: Final = (
    *("merge_on_read", "append_only", "change_data_feed", "auto_compaction", "audit_reads"),
)
_SHARES: Final = ("merge_on_read_fraction", "retry_jitter")
_SECONDS: Final = (
    *("retry_first_delay_seconds", "retry_longest_delay_seconds", "lock_timeout_seconds"),
)
_WHOLES: Final = ("checkpoint_interval", "retry_attempts")
_LISTS: Final = ("allowed_evolutions", "features", "bloom_filters")


class Mode(StrEnum):
    """What writes may do to a schema, from the most to the least strict."""

    STRICT = "strict"
    MERGE = "merge"
    OVERWRITE = "overwrite"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules for every write of a table; None for a field that is not set.

    Attributes:
        schema_mode: What a write does by default if data has other columns, and the most that it
            may request: `strict` (refuse the data), `merge` or `overwrite`.
        allowed_evolutions: The changes that `alter` and writes may make, named as the methods of
            `alter`; an empty list allows none.
        column_mapping: How new Delta tables name columns in files: `none`, `name` or `id`. With
            `none`, no rename or drop enables the mapping.
        stats_columns: The names of the columns with statistics.
        target_file_size: The target size of data files, such as `128 MB`.
        compression: The codec of data files.
        merge_on_read: Whether to use deletion vectors if few rows of a file are deleted.
        merge_on_read_fraction: The share of deleted rows in a file up to which deletion vectors are
            used.
        append_only: Whether rows can only be added.
        change_data_feed: Whether new Delta tables record changed rows.
        retention: How long versions can be read, such as `90 days`.
        log_retention: How long published log files are kept.
        checkpoint_interval: After how many versions a checkpoint is written; 0 for never.
        constraints: Constraints by name: checks as text, or `Check`, `Unique`, `NotNull`.
        features: Features that new tables get, by the names that `alter.enable` takes.
        retry_attempts: How often `lake.run` tries a transaction; other retry fields as in `Retry`.
        lock_timeout_seconds: How long `tx.lock` waits.
        expectations: Expectations of data by name: a condition as text, or a mapping with
            `measure`. `t.quality()` measures them; they refuse no rows.
        bloom_filters: Columns for which data files get Bloom filters.
        auto_compaction: Whether small files are compacted after commits, in the background.
        audit_reads: Whether reads are recorded in the audit trail, before rows are returned.
    """

    schema_mode: str | None = None
    allowed_evolutions: tuple[str, ...] | None = None
    column_mapping: str | None = None
    stats_columns: tuple[str, ...] | None = None
    target_file_size: int | str | None = None
    compression: str | None = None
    merge_on_read: bool | None = None
    merge_on_read_fraction: float | None = None
    append_only: bool | None = None
    change_data_feed: bool | None = None
    retention: timedelta | str | None = None
    log_retention: timedelta | str | None = None
    checkpoint_interval: int | None = None
    constraints: Mapping[str, str | Constraint] | None = None
    features: tuple[str, ...] | None = None
    retry_attempts: int | None = None
    retry_first_delay_seconds: float | None = None
    retry_longest_delay_seconds: float | None = None
    retry_jitter: float | None = None
    lock_timeout_seconds: float | None = None
    bloom_filters: tuple[str, ...] | None = None
    auto_compaction: bool | None = None
    expectations: Mapping[str, Any] | None = None
    audit_reads: bool | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            object.__setattr__(self, name, _checked(name, value))

    def __repr__(self) -> str:
        return f"Policy({', '.join(f'{n}={v!r}' for n, v in self.given().items())})"

    @classmethod
    def of(cls, value: Any) -> Policy:
        """Return the policy for a mapping, or a policy itself; raise `InvalidInput` otherwise."""
        if isinstance(value, Policy):
            return value
        given = arguments.mapping(value, "policy")
        unknown = sorted(set(given) - set(FIELDS))
        if unknown:
            what = f"A policy has no field {unknown[0]!r}."
            raise InvalidInput(what, hint=f"It has {', '.join(FIELDS)}.", parameter=unknown[0])
        for name, one in given.items():
            if one is None:
                what = f"Field {name} of the policy is None."
                raise InvalidInput(what, hint="Leave it out.", parameter=name)
        return cls(**given)

    def given(self) -> dict[str, Any]:
        """Return the fields that are set, with their values."""
        found = ((name, getattr(self, name)) for name in FIELDS)
        return {name: value for name, value in found if value is not None}

    def to_json(self) -> dict[str, Any]:
        """Return the fields that are set, as plain JSON values, which `of` takes."""
        return {name: _plain(value) for name, value in self.given().items()}

    def over(self, less: Policy) -> Policy:
        """Return this policy, with unset fields taken from a less specific one.

        Constraints, expectations and features of both are combined; if both have one of the same
        name, this policy's is used.
        """
        found: dict[str, Any] = {**less.given(), **self.given()}
        for name in ("constraints", "expectations"):
            both = {**(getattr(less, name) or {}), **(getattr(self, name) or {})}
            if both:
                found[name] = both
        features = dict.fromkeys([*(less.features or ()), *(self.features or ())])
        if features:
            found["features"] = tuple(features)
        return replace(Policy(), **found)


FIELDS: Final = tuple(field.name for field in fields(Policy))


def constraint_of(name: str, value: Any) -> str | Constraint:
    """Return a constraint from its plain form: text, or a mapping as in files."""
    if isinstance(value, str | Check | Unique | ForeignKey | NotNull):
        return value
    body = arguments.mapping(value, f"constraints.{name}")
    what = f"Constraint {name} must be text, or a mapping with `check`, `unique` or `not_null`."
    hint = 'Write positive = "amount > 0", or {unique = ["id"], on_violation = "quarantine"}.'
    reaction = body.pop("on_violation", "fail")
    if len(body) != 1:
        raise InvalidInput(what, hint=hint, constraint=name)
    match next(iter(body.items())):
        case ("check", text):
            return Check(arguments.text(text, f"constraints.{name}"), reaction)
        case ("unique", columns):
            names = [columns] if isinstance(columns, str) else columns
            return Unique(*arguments.texts(names, f"constraints.{name}"), on_violation=reaction)
        case ("not_null", columns):
            names = [columns] if isinstance(columns, str) else columns
            return NotNull(*arguments.texts(names, f"constraints.{name}"), on_violation=reaction)
        case _:
            raise InvalidInput(what, hint=hint, constraint=name)


def _checked(name: str, value: Any) -> Any:
    """Return a field's value in its normal form; raise `InvalidInput` if it is invalid."""
    if name == "schema_mode":
        return str(arguments.choice(value, Mode, name))
    if name == "column_mapping":
        return _one_of(value, _MAPPINGS, name)
    if name == "compression":
        return _one_of(value, CODECS, name)
    if name == "target_file_size":
        return size(value, name)
    if name in _DURATIONS:
        return duration(value, name)
    if name in _FLAGS:
        return arguments.flag(value, name)
    if name in _WHOLES:
        return arguments.whole(value, name, least=int(name == "retry_attempts"))
    if name in _SECONDS or name in _SHARES:
        found = arguments.number(value, name)
        if name in _SHARES and found > 1:
            what = f"`{name}` must be a share from 0 to 1; it is {value!r}."
            raise InvalidInput(what, parameter=name)
        return found
    if name == "constraints":
        return _constraints(arguments.mapping(value, name))
    if name == "expectations":
        from lakeward.model.quality.expectation import Expectation

        given = arguments.mapping(value, name)
        for key, one in given.items():
            if Expectation.of(key, one).check is not None:
                what = f"Expectation {key} is a function of Python, which a policy cannot keep."
                hint = "Write a condition, or give it to t.quality(expectations={…})."
                raise InvalidInput(what, hint=hint, parameter=key)
        return given
    return _names(name, value)


def _names(name: str, value: Any) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(arguments.texts(value, name)))
    unknown = [one for one in found if name == "allowed_evolutions" and one not in EVOLUTIONS]
    if unknown:
        what = f"{unknown[0]!r} is not a change of a table."
        raise InvalidInput(what, hint=f"Changes are {', '.join(EVOLUTIONS)}.", parameter=name)
    return found


def _constraints(given: Mapping[str, Any]) -> dict[str, str | Constraint]:
    found: dict[str, str | Constraint] = {}
    for name, value in given.items():
        if not name.replace("_", "a").isalnum() or not name.isascii():
            what = f"{name!r} is not a constraint name."
            raise InvalidInput(what, hint="Use letters, digits and '_'.", constraint=name)
        one = constraint_of(name, value)
        if isinstance(one, ForeignKey):
            what = f"Constraint {name} is a foreign key, which only a table of its own can have."
            raise InvalidInput(what, hint="Use t.alter().add_constraint.", constraint=name)
        if isinstance(one, Check) and one.on_violation == "fail":
            one = one.expression
        found[name.lower()] = one
    return found


def _one_of(value: Any, words: tuple[str, ...], name: str) -> str:
    if not isinstance(value, str) or value.lower() not in words:
        what = f"`{name}` must be one of {', '.join(words)}; it is {value!r}."
        raise InvalidInput(what, parameter=name)
    return value.lower()


def _plain(value: Any) -> Any:
    match value:
        case timedelta():
            return duration_text(value)
        case tuple():
            return list(value)
        case Mapping():
            return {name: _plain(one) for name, one in value.items()}
        case Check(expression, on_violation):
            return {"check": expression, "on_violation": str(on_violation)}
        case Unique(columns, on_violation):
            return {"unique": list(columns), "on_violation": str(on_violation)}
        case NotNull(columns, on_violation):
            return {"not_null": list(columns), "on_violation": str(on_violation)}
        case _:
            return value
