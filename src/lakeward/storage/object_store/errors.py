"""Translates errors of object stores to errors of Lakeward.

obstore's errors quote requests, and stores quote signatures, tokens and key names. So only the
HTTP status and the store's error code are passed on.
"""

from __future__ import annotations

import re
from typing import Final

from lakeward.errors import FileMissing, LakewardError, StorageError
from lakeward.storage.object_store.options import HIDDEN, StorageOptions

_STATUS: Final = re.compile(r"status code: (\d{3})(?: ([A-Za-z ]+))?")
_CODE: Final = re.compile(r"<Code>(\w+)</Code>|\"code\":\s*\"?(\w+)")
_ADDRESS: Final = re.compile(r"\w+://\S+")
_NO_CONTAINER: Final = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_TEMPORARY: Final = ("408", "409", "425", "429", "500", "502", "503", "504")
_REASONS: Final = (
    ("dns error", "its address is not known"),
    ("Connection refused", "nobody listens at its address"),
    ("certificate", "its certificate is not trusted"),
    ("timed out", "it did not answer in time"),
    ("kind: Timeout", "it did not answer in time"),
    ("error sending request", "the connection broke"),
    ("connection", "the connection broke"),
    ("error decoding response body", "its answer broke off"),
)


def is_taken(error: BaseException) -> bool:
    """Whether a conditional put was refused because the name is taken."""
    return type(error).__name__ in ("AlreadyExistsError", "PreconditionError")


def is_denied(error: BaseException) -> bool:
    """Whether a request failed because the credentials are missing or lack a permission."""
    denied = type(error).__name__ in ("PermissionDeniedError", "UnauthenticatedError")
    return denied or _status(error)[0] in ("401", "403")


def is_missing(error: BaseException) -> bool:
    """Whether a request failed because the file, not its bucket, does not exist."""
    named = isinstance(error, FileNotFoundError) or type(error).__name__ == "NotFoundError"
    return named and not _lacks_container(error)


def is_temporary(error: BaseException) -> bool:
    """Whether a request that failed may succeed when it is retried."""
    if is_taken(error) or is_denied(error) or isinstance(error, FileNotFoundError):
        return False
    if type(error).__name__ not in ("GenericError", "JoinError", "OSError", "TimeoutError"):
        return False
    status = _status(error)[0]
    return status is None or status in _TEMPORARY


def translate(error: BaseException, path: str, root: str, options: StorageOptions) -> LakewardError:
    """Return the Lakeward error for an error of obstore about a file, without secrets."""
    if is_missing(error):
        what = f"The file {path} is missing."
        return FileMissing(what, path=path)
    hint = "Check the network and the store; nothing that was acknowledged is lost."
    if _lacks_container(error):
        what = f"The warehouse {root} cannot be used: its bucket does not exist."
        hint = "Create the bucket or container, or correct the name."
    elif is_denied(error):
        what = f"{root} does not let these credentials use {path}: {_reason(error, options)}."
        hint = "Check the storage options, the environment and the bucket's policy."
        if not options.has_credentials():
            hint = "No credentials were found in storage options, environment or profiles."
    else:
        what = f"The file {path} could not be written or read at {root}: {_reason(error, options)}."
    return StorageError(what, hint=hint, path=path, denied=is_denied(error))


def _lacks_container(error: BaseException) -> bool:
    return any(sign in str(error) for sign in _NO_CONTAINER)


def _status(error: BaseException) -> tuple[str | None, str]:
    found = _STATUS.search(str(error))
    return (None, "") if found is None else (found[1], (found[2] or "").strip())


def _reason(error: BaseException, options: StorageOptions) -> str:
    text = str(error)
    status, words = _status(error)
    if status is not None:
        code = _CODE.search(text)
        name = next((c for c in code.groups() if c), "") if code else ""
        return f"it answered {' '.join(part for part in (status, name or words) if part)}"
    for sign, meaning in _REASONS:
        if sign in text:
            return meaning
    # Unknown messages are passed on without secrets and addresses.
    line = _ADDRESS.sub("<address>", text.partition("\n")[0])
    for secret in options.secrets():
        line = line.replace(secret, HIDDEN)
    return line.rstrip(".")
