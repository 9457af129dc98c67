"""Access tokens of the service. The store has the hash of a token's secret, never the secret."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from lakeward.log.codec import dumps, loads
from lakeward.log.database import Session
from lakeward.log.statement import Statement, insertion
from lakeward.log.tables import token
from lakeward.model.roles import Role

_COLUMNS = ", ".join(token.columns)
_INSERT = insertion(token, "")
_GET = Statement(f"SELECT {_COLUMNS} FROM lakeward_token WHERE token_id = :token_id")  # noqa: S608  our names
_ALL = Statement(f"SELECT {_COLUMNS} FROM lakeward_token ORDER BY created_ms, token_id")  # noqa: S608  our names
_REVOKE = Statement(
    """UPDATE lakeward_token SET revoked_ms = :now
    WHERE token_id = :token_id AND revoked_ms IS NULL"""
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token.

    Attributes:
        digest: SHA-256 of the secret, in hexadecimal digits.
        name: Who uses the token; commits made with it record this name.
        tables: Patterns of the tables to which the token gives access.
        actor: Who created the token.
    """

    token_id: str
    digest: str
    name: str
    role: Role
    tables: tuple[str, ...]
    actor: str
    created_ms: int
    expires_ms: int | None
    revoked_ms: int | None


def insert(session: Session, new: TokenRow) -> None:
    """Insert a token."""
    session.run(_INSERT, {**asdict(new), "role": new.role.value, "tables": dumps(list(new.tables))})


def get(session: Session, token_id: str) -> TokenRow | None:
    """Return the token of an id, even if it was revoked, or None."""
    row = session.row(_GET, {"token_id": token_id})
    return None if row is None else _row(row)


def every(session: Session) -> list[TokenRow]:
    """Return all tokens, oldest first, including revoked and expired ones."""
    return [_row(row) for row in session.rows(_ALL)]


def revoke(session: Session, token_id: str, now: int) -> bool:
    """Record that a token is revoked; return False if it was revoked before or does not exist."""
    return session.run(_REVOKE, {"token_id": token_id, "now": now}) == 1


def _row(row: tuple[object, ...]) -> TokenRow:
    token_id, digest, name, role, tables, *rest = row
    return TokenRow(token_id, digest, name, Role(role), tuple(loads(tables)), *rest)  # type: ignore[arg-type]
