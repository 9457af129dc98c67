"""Binds values to parameters in SQL text: `:name`, `$name`, `$1` and `?`.

A value is never inserted into SQL unquoted. Engines get it bound (`bound`); if an expression is
stored as text, the value becomes a literal of its type (`with_literals`), with proper quoting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from lakeward.errors import InvalidInput
from lakeward.model.quoting import literal as spark_text
from lakeward.model.values import is_text

if TYPE_CHECKING:
    from sqlglot.tokenizer_core import Token

Params: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""Values by the names of their parameters, or in the order of their parameters."""
_OPENING: Final = frozenset(
    {"L_PAREN", "COMMA", "EQ", "LT", "LTE", "GT", "GTE", "NEQ", "PLUS", "DASH", "STAR", "SLASH"}
)
"""Tokens after which a parameter may follow without a space."""
_CLAUSES: Final = frozenset({"WHERE", "HAVING", "QUALIFY", "ON", "WHEN", "SELECT"})
"""Words after which a condition that is not known to be true is as good as false."""
_CONNECTIVES: Final = frozenset({"AND", "OR", "COMMA"})
_LISTED: Final = 10
_DIGITS: Final = 308
"""Decimals with more digits before the point are not spelled out."""


class Place(NamedTuple):
    """A parameter: its span in the text, and its name or number."""

    start: int
    end: int
    key: str | int
    is_negated: bool = False  # it is in a list that NOT applies to


def places(tokens: Sequence[Token]) -> list[Place]:
    """Return the parameters in a text, in order."""
    found: list[Place] = []
    count = 0
    for n, token in enumerate(tokens):
        name = token.token_type.name
        if name == "PLACEHOLDER":
            found.append(Place(token.start, token.end + 1, count, _is_negated(tokens[:n])))
            count += 1
            continue
        following = tokens[n + 1] if n + 1 < len(tokens) else None
        if name not in ("COLON", "PARAMETER") or following is None:
            continue
        if following.start != token.end + 1 or not _is_name(following.text):
            continue
        if name == "COLON" and n and not _may_follow(tokens[n - 1], token):
            continue
        key = int(following.text) - 1 if following.text.isdecimal() else following.text
        found.append(Place(token.start, following.end + 1, key, _is_negated(tokens[:n])))
    return found


def _is_negated(before: Sequence[Token]) -> bool:
    """Return whether NOT applies to a condition with the parameter, as in `NOT (k IN (:ids))`."""
    depth = 0  # of the parentheses between the token and the parameter's own
    is_other = False  # whether the token belongs to a condition before the parameter's
    for token in reversed(before):
        name = token.token_type.name
        if name == "R_PAREN":
            depth += 1
        elif name == "L_PAREN" and depth:
            depth -= 1
        elif name == "L_PAREN":
            is_other = False
        elif depth:
            continue
        elif name in _CLAUSES:
            return False
        elif name in _CONNECTIVES:
            is_other = True
        elif name == "NOT" and not is_other:
            return True
    return False


def with_literals(text: str, params: Params | None, tokens: Sequence[Token]) -> str:
    """Return an expression with values in place of parameters, as literals of Spark SQL."""
    return _replaced(text, places(tokens), params, lambda _, value: spark_literal(value))


def with_standard_literals(text: str, values: Sequence[tuple[Place, Any]]) -> str:
    """Return a query with values in their places, in order, as literals of standard SQL."""
    return _written(text, values, lambda _, value: standard_literal(value))


def where_text(where: str | None, params: Params | None) -> str | None:
    """Return a condition with values in place of its parameters; None if there is no condition.

    Raises:
        InvalidInput: A value is missing, or cannot be a parameter.
    """
    if params is None or where is None:
        if params:
            what = "`params` are given without a condition."
            raise InvalidInput(what, hint="Give where= too.")
        return where
    import sqlglot

    from lakeward.model.expressions.where import with_quotes

    try:
        tokens = with_quotes(sqlglot.tokenize(where, dialect="databricks"), where)
    except Exception:  # noqa: BLE001  the parser says later what is wrong with it
        return where
    return with_literals(where, params, tokens)


class Bound(NamedTuple):
    """A text with `$p0`, `$p1`, … in place of its parameters, and their values."""

    text: str
    values: dict[str, Any]


def bound(spans: Sequence[tuple[Place, Any]]) -> tuple[list[tuple[int, int, str]], dict[str, Any]]:
    """Return the text for each parameter, `$p0`, `$p1`, …, and the values by these names.

    A list, a tuple or a set gets a name for each of its values: `id IN (:ids)`.
    """
    values: dict[str, Any] = {}
    edits = []
    for place, value in spans:
        names = []
        # Nulls are last: see `engines.sql.wording`.
        for one in sorted(_many(value), key=lambda one: one is None):
            names.append(f"$p{len(values)}")
            values[names[-1][1:]] = plain(one)
        edits.append((place.start, place.end, ", ".join(names) or "NULL"))
    return edits, values


def nulls(spans: Sequence[tuple[Place, Any]]) -> list[tuple[int, int]]:
    """Return the spans of the parameters that have no value but null."""
    found = (place for place, value in spans if all(one is None for one in _many(value)))
    return [(place.start, place.end) for place in found]


def given(found: Sequence[Place], params: Params | None) -> list[tuple[Place, Any]]:
    """Return each parameter with its value.

    Raises:
        InvalidInput: A value is missing, there are more values than parameters, or a list is empty
            that NOT applies to.
    """
    pairs = _paired(found, params)
    for place, value in pairs:
        if place.is_negated and is_list(value) and not len(value):
            what = f"The list for {_shown(place)} is empty, and under NOT it needs a value."
            raise InvalidInput(what, hint="Leave out the condition: it holds for all rows.")
    return pairs


def _shown(place: Place) -> str:
    return f":{place.key}" if isinstance(place.key, str) else f"parameter {place.key + 1}"


def _paired(found: Sequence[Place], params: Params | None) -> list[tuple[Place, Any]]:
    params = checked(params)
    if isinstance(params, Mapping):
        known = {str(k): v for k, v in params.items()}
        pairs = [(p, _named(p, known)) for p in found]
        _check_used(known, found)
        return pairs
    values = list(params or ())
    wanted = 1 + max((p.key for p in found if isinstance(p.key, int)), default=-1)
    missing = next((p for p in found if not isinstance(p.key, int)), None)
    if missing is not None:
        what = f"There is no value for :{missing.key}."
        raise InvalidInput(what, hint=f"Give params={{{str(missing.key)!r}: …}}.")
    if len(values) != wanted:
        what = f"The text has places for {wanted} values, and {len(values)} are given."
        raise InvalidInput(what, hint="Give one value for each ?.")
    return [(p, values[int(p.key)]) for p in found]


def checked(params: Any) -> Params | None:
    """Return `params` if they are a mapping or a sequence; raise `InvalidInput` if not."""
    if isinstance(params, str | bytes) or not isinstance(params, Mapping | Sequence | None):
        what = f"`params` must be a mapping or a sequence, not {type(params).__name__}."
        raise InvalidInput(what, hint="Write {'name': value} for :name, or [value] for ?.")
    return params


def plain(value: Any) -> Any:
    """Return a value as a built-in Python type; Arrow and NumPy scalars are converted."""
    if hasattr(value, "as_py"):
        value = value.as_py()
    elif type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, datetime):
        # Subclasses, such as pandas' Timestamp, become plain ones.
        if value.tzinfo is not None:
            value = value.astimezone(UTC)
        day, moment = value.date(), value.time()
        return datetime.combine(day, moment, None if value.tzinfo is None else UTC)
    if isinstance(value, str) and not is_text(value):
        what = f"{value!r} cannot be a parameter: it has half of a surrogate pair."
        raise InvalidInput(what, hint="Give text that can be encoded as UTF-8.")
    if isinstance(value, Decimal) and value.is_finite():
        return _without_exponent(value)
    if value is None or isinstance(value, bool | int | float | str | bytes | date | Decimal):
        return value
    what = f"A value of type {type(value).__name__} cannot be a parameter."
    hint = "Give text, a number, a boolean, bytes, a date, a datetime, None, or a list of these."
    raise InvalidInput(what, hint=hint)


def _without_exponent(value: Decimal) -> Decimal:
    """Return the same number with an exponent of at most 0: DuckDB ignores exponents above 0."""
    if value.as_tuple().exponent <= 0:  # type: ignore[operator]  # text only if not finite
        return value
    if value.adjusted() >= _DIGITS:
        what = f"{value} cannot be a parameter: it has more than {_DIGITS} digits."
        raise InvalidInput(what, hint="Give a float instead.")
    return Decimal(f"{value:f}")


def is_list(value: Any) -> bool:
    """Return whether a value is expanded to several ones: a list, a tuple, a set or an array."""
    if isinstance(value, AbstractSet) or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes)
    ):
        return True
    return type(value).__module__ == "numpy" and getattr(value, "ndim", 0) == 1


def spark_literal(value: Any) -> str:
    """Return a value, or the values of a list separated by commas, as Spark SQL."""
    return _literals(value, spark_text, "X'{}'")


def standard_literal(value: Any) -> str:
    """Return a value, or the values of a list separated by commas, as standard SQL."""
    return _literals(value, lambda text: "'" + text.replace("'", "''") + "'", "unhex('{}')")


def _literals(value: Any, quoted: Callable[[str], str], octets: str) -> str:
    return ", ".join(_literal(plain(one), quoted, octets) for one in _many(value)) or "NULL"


def _literal(value: Any, quoted: Callable[[str], str], octets: str) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            # Two minus signs in a row would begin a comment.
            return str(value) if value >= 0 else f"({value})"
        case float():
            return _double(value)
        case str():
            return quoted(value)
        case bytes():
            return octets.format(value.hex())
        case datetime():
            moment = value.replace(tzinfo=None).isoformat(" ")
            return f"TIMESTAMP '{moment}'" if value.tzinfo is None else f"TIMESTAMP '{moment}+00'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case _:
            return _decimal(value)


def _double(value: float) -> str:
    if not math.isfinite(value):
        spelled = "NaN" if math.isnan(value) else ("-" if value < 0 else "") + "Infinity"
        return f"CAST('{spelled}' AS DOUBLE)"
    text = repr(value)
    text = text if "e" in text else f"{text}e0"
    return text if not text.startswith("-") else f"({text})"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        what = f"{value} cannot be a parameter: a decimal is finite."
        raise InvalidInput(what, hint="Give a float instead.")
    text = f"{value:f}"
    return text if not text.startswith("-") else f"({text})"


def _replaced(
    text: str,
    found: Sequence[Place],
    params: Params | None,
    written: Callable[[Place, Any], str],
) -> str:
    return _written(text, given(found, params), written)


def _written(
    text: str, spans: Sequence[tuple[Place, Any]], written: Callable[[Place, Any], str]
) -> str:
    out, at = [], 0
    for place, value in spans:
        out += [text[at : place.start], written(place, value)]
        at = place.end
    return "".join([*out, text[at:]])


def _check_used(known: Mapping[str, Any], found: Sequence[Place]) -> None:
    used = {str(place.key) for place in found}
    unused = next((name for name in known if name not in used), None)
    if unused is not None:
        what = f"There is a value for {unused!r}, and the text has no :{unused}."
        names = ", ".join(f":{name}" for name in sorted(used)[:_LISTED])
        hint = (
            f"The text has {names}." if names else "Write it without quotes; in quotes it is text."
        )
        raise InvalidInput(what, hint=hint)


def _named(place: Place, known: Mapping[str, Any]) -> Any:
    if isinstance(place.key, int):
        what = "The text has places without names, and the values have names."
        raise InvalidInput(what, hint="Write :name, or give the values as a list.")
    if place.key not in known:
        what = f"There is no value for :{place.key}."
        have = ", ".join(sorted(known)[:_LISTED]) or "none"
        raise InvalidInput(what, hint=f"Given are: {have}.")
    return known[place.key]


def _many(value: Any) -> list[Any]:
    return list(value) if is_list(value) else [value]


def _is_name(text: str) -> bool:
    return text.isdecimal() or text.isidentifier()


def _may_follow(before: Token, colon: Token) -> bool:
    """Return whether a colon begins a parameter: not in a slice, a map or a JSON path."""
    return before.end + 1 < colon.start or before.token_type.name in _OPENING
