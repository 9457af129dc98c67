"""Access tokens of a lake's service: created, listed, revoked and checked.

A token is `lkw_<id>_<secret>`. The store keeps the SHA-256 of the secret, which has 256 random
bits, so a copy of the store gives nobody access.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Self

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, NotFound
from lakeward.lake.transactions import Transactions
from lakeward.log import tokens
from lakeward.log.tokens import TokenRow
from lakeward.model import arguments
from lakeward.model.clock import to_datetime
from lakeward.model.duration import to_milliseconds
from lakeward.model.policy.patterns import EVERY, Pattern
from lakeward.model.roles import Role

_FORM: Final = re.compile(r"lkw_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_NAME: Final = re.compile(r"[\w.@-]{1,64}", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Token:
    """An access token, without its secret.

    Attributes:
        token_id: The id by which the token is listed and revoked.
        name: Who uses it: commits that are made with it record this name.
        role: `reader`, `writer` or `admin`.
        tables: Patterns of the tables that the token gives access to.
        actor: Who created the token.
        valid: Whether the token is neither expired nor revoked.
    """

    token_id: str
    name: str
    role: Role
    tables: tuple[str, ...]
    actor: str
    created: datetime
    expires: datetime | None
    revoked: datetime | None
    valid: bool


@dataclass(frozen=True, slots=True)
class NewToken(Token):
    """A new token, with its secret.

    Attributes:
        secret: The text to give to its user. It is shown once and kept nowhere.
    """

    secret: str

    def __repr__(self) -> str:
        return f"NewToken({self.token_id!r}, name={self.name!r}, role={self.role.value!r})"


class Tokens:
    """The part of a lake's interface that manages access tokens for its service."""

    _context: LakeContext
    _transactions: Transactions

    def create_token(
        self,
        name: str | None = None,
        *,
        role: str = "reader",
        tables: str | Sequence[str] = EVERY,
        expires: Any = "90d",
    ) -> NewToken:
        """Create an access token for the service.

        Args:
            name: Who uses it, in letters, digits, `_`, `-`, `.` and `@`. Commits record it. Unless
                given, `token-` and the token's id.
            role: `reader` reads; `writer` also creates tables and appends rows; `admin` does
                everything.
            tables: A pattern of the tables that it gives access to, or several: `gold.*`,
                `sales.orders`.
            expires: How long the token is valid: `30d`, `12h`. None for no limit.

        Raises:
            InvalidInput: The name, the role, a pattern or the time is wrong. Nothing was created.
        """
        self._context.database.check_writable()
        if name is not None and not _NAME.fullmatch(arguments.text(name, "name")):
            what = f"{name!r} is no name for the user of a token."
            raise InvalidInput(what, hint="Use letters, digits, '_', '-', '.' and '@'.")
        chosen = arguments.choice(role, Role, "role")
        given = [tables] if isinstance(tables, str) else arguments.texts(tables, "tables")
        patterns = tuple(Pattern.parse(text).text for text in given)
        if not patterns:
            raise InvalidInput("The token would open no table.", hint="Give a pattern: gold.*")  # noqa: EM101
        length = None if expires is None else to_milliseconds(expires, "expires")
        secret, token_id = secrets.token_urlsafe(32), secrets.token_hex(6)
        with self._context.database.write() as session:
            now = self._context.database.clock_ms(session)
            row = TokenRow(
                token_id=token_id,
                digest=_digest(secret),
                name=name or f"token-{token_id}",
                role=chosen,
                tables=patterns,
                actor=self._context.actor,
                created_ms=now,
                expires_ms=None if length is None else now + length,
                revoked_ms=None,
            )
            tokens.insert(session, row)
        return NewToken(**_facts(row, now), secret=f"lkw_{token_id}_{secret}")

    def tokens(self) -> list[Token]:
        """Return the access tokens, including expired and revoked ones, oldest first."""
        with self._context.database.read() as session:
            now = self._context.database.clock_ms(session)
            return [Token(**_facts(row, now)) for row in tokens.every(session)]

    def revoke_token(self, token_id: str) -> Token:
        """Revoke a token, so that it gives no access from now on; return the revoked token.

        Raises:
            NotFound: There is no token of this id.
        """
        self._context.database.check_writable()
        arguments.text(token_id, "token_id")
        with self._context.database.write() as session:
            now = self._context.database.clock_ms(session)
            tokens.revoke(session, token_id, now)
            row = tokens.get(session, token_id)
        if row is None:
            # What was given may be a secret by mistake.
            what = "The lake has no token of this id."
            raise NotFound(what, hint="`lakeward token list` lists what it has.")
        return Token(**_facts(row, now))

    def token_of(self, secret: str) -> Token | None:
        """Return the valid token that has this secret; None if there is none."""
        parsed = _FORM.fullmatch(arguments.text(secret, "secret"))
        if parsed is None:
            return None
        with self._context.database.read() as session:
            row = tokens.get(session, parsed[1])
            now = self._context.database.clock_ms(session)
        if row is None or not hmac.compare_digest(row.digest, _digest(parsed[2])):
            return None
        found = Token(**_facts(row, now))
        return found if found.valid else None

    def acting_as(self, actor: str) -> Self:
        """Return the same lake for another actor, whose name commits and the audit trail record.

        The returned lake shares the connections of this object: close only this object.
        """
        arguments.text(actor, "actor")
        other = copy(self)
        other._context = replace(self._context, actor=actor)
        other._transactions = replace(self._transactions, context=other._context)
        return other


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _facts(row: TokenRow, now: int) -> dict[str, Any]:
    is_over = row.expires_ms is not None and row.expires_ms <= now
    return {
        "token_id": row.token_id,
        "name": row.name,
        "role": row.role,
        "tables": row.tables,
        "actor": row.actor,
        "created": to_datetime(row.created_ms),
        "expires": None if row.expires_ms is None else to_datetime(row.expires_ms),
        "revoked": None if row.revoked_ms is None else to_datetime(row.revoked_ms),
        "valid": row.revoked_ms is None and not is_over,
    }
