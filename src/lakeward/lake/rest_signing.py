"""Remote signing: S3 requests of Iceberg REST clients, signed with the key of the warehouse.

A request concerns files of one Iceberg table, in its directory. Files that the log has, or that are
metadata, are written by nobody else: requests to overwrite or delete them are not signed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lakeward.context import LakeContext
from lakeward.errors import InvalidInput, LakewardError, NotFound, UnsupportedFeature
from lakeward.log import files, heads
from lakeward.model.commit import Head
from lakeward.model.names import TableName

if TYPE_CHECKING:
    from lakeward.storage.object_store.signing import S3Request

ENDPOINT: Final = "v1/aws/s3/sign"
_METADATA: Final = "metadata/"
_STAGED: Final = re.compile(r"(?:([^/]+)/)?([^/]+)-[0-9a-f]{12}")


class NotSigned(LakewardError):
    """The request would overwrite or delete files that versions of a table have."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A file or a directory of a table; the table has no head before the commit that creates it."""

    name: TableName
    head: Head | None
    path: str


class RestSigning:
    """The part of the catalog that lets clients without credentials reach the files of tables."""

    _context: LakeContext

    def delegation(self, wanted: str | None) -> dict[str, str]:
        """Return the settings by which a client has its requests signed.

        They are empty if it does not want that, or the warehouse has no key to sign with. `wanted`
        is the value of the header `X-Iceberg-Access-Delegation`.
        """
        kinds = {kind.strip().lower() for kind in (wanted or "").split(",")}
        signer = self._context.storage.signer() if "remote-signing" in kinds else None
        if signer is None:
            return {}
        return {
            **signer.client_settings(),
            "s3.remote-signing-enabled": "true",
            "s3.signer": "S3V4RestSigner",
            "s3.signer.endpoint": ENDPOINT,
        }

    def sign(self, body: Mapping[str, Any], check: Callable[[str, bool], object]) -> dict[str, Any]:
        """Sign a request to the store, in the form of Iceberg's protocol of S3 signers.

        Args:
            body: The request to sign.
            check: Called with the name of the table, and whether the request needs the right to
                write: it changes files, or the table is not created yet. Raises an error if the
                caller may not do that.

        Raises:
            UnsupportedFeature: The warehouse has no key to sign with.
            InvalidInput: The request has not the form of one, or is not known.
            NotFound: It concerns files that are of no Iceberg table.
            NotSigned: It would overwrite or delete files of the table.
        """
        signer = self._context.storage.signer()
        if signer is None:
            what = "The warehouse has no access key of S3 to sign requests with."
            raise UnsupportedFeature(what, hint="Use credentials of your own.")
        request: S3Request = signer.understood(*_parsed(body))
        places = [self._place_of(name) for name in request.touches]
        changes = request.action.value in ("write", "delete")
        for place in places:
            check(str(place.name), changes or place.head is None)
            if changes:
                self._check_change(place, request.action.value)
        headers = {name: [value] for name, value in signer.signed(request).items()}
        return {"uri": request.uri, "headers": headers}

    def _place_of(self, full: str) -> _Place:
        """Return the table in whose directory a file or a listed prefix is."""
        storage = self._context.storage
        path = storage.locate(full.removesuffix("/")) + ("/" if full.endswith("/") else "")
        with self._context.database.read() as session:
            above = path
            while "/" in above:
                above = above.rpartition("/")[0]
                head = heads.by_location(session, above)
                if head is not None and head.pointer is not None:
                    return _Place(head.name, head, path.removeprefix(f"{above}/"))
                if heads.overlapping(session, above) is not None:
                    # A table of another format, or one that was dropped.
                    continue
                found = _STAGED.fullmatch(above)
                if found is not None and "://" not in above:
                    return _Place(
                        TableName.parse(".".join(part for part in found.groups() if part)),
                        None,
                        path.removeprefix(f"{above}/"),
                    )
        raise _missing()

    def _check_change(self, place: _Place, action: str) -> None:
        """Raise `NotSigned` for a file that the log has, and for metadata that exists."""
        if place.path.endswith(".metadata.json"):
            what = "The lake writes the metadata files of tables itself."
            raise NotSigned(what, table=str(place.name))
        if place.head is None:
            return
        full = f"{place.head.location}/{place.path}"
        if place.path.startswith(_METADATA):
            if action == "delete" or self._context.storage.exists(full):
                what = f"Metadata of table {place.name} is neither overwritten nor deleted."
                raise NotSigned(what, table=str(place.name))
            return
        with self._context.database.read() as session:
            key, version = place.head.table_id, place.head.version
            is_known = files.live_at_path(session, key, place.path)
            if is_known or files.last_removed(session, key, version, place.path) is not None:
                what = f"A version of table {place.name} has this file."
                raise NotSigned(what, hint="Vacuum deletes files later.", table=str(place.name))


def _parsed(body: Mapping[str, Any]) -> tuple[str, str, dict[str, str], str | None]:
    """Return method, address, headers and body of the request to sign."""
    method, uri, given = body.get("method"), body.get("uri"), body.get("headers")
    content = body.get("body")
    if not isinstance(method, str) or not isinstance(uri, str) or not isinstance(given, Mapping):
        raise InvalidInput("The body names no request to sign.")  # noqa: EM101
    if content is not None and not isinstance(content, str):
        raise InvalidInput("The body of the request to sign is no text.")  # noqa: EM101
    headers: dict[str, str] = {}
    for name, values in given.items():
        if not isinstance(values, list) or not all(isinstance(v, str) for v in values):
            raise InvalidInput("A header of the request to sign has no list of values.")  # noqa: EM101
        headers[name.lower()] = ",".join(values)
    return method.upper(), uri, headers, content


def _missing() -> NotFound:
    return NotFound("The request to sign is for no file of a table that is open to you.")
