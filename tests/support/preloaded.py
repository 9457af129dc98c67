"""Imports what an embedded lake loads as it works, so that forked processes find it loaded.

`tests.support.processes` loads this in its fork server: a process that a test starts would spend
half a second on these imports, and a run of the tests starts hundreds of them.
"""

from __future__ import annotations

import importlib
import pkgutil

import lakeward

_PACKAGES = (
    "engines.arrow",
    "formats",
    "lake",
    "log",
    "maintain",
    "model",
    "read",
    "storage",
    "stream",
    "write",
)
_NOT_EMBEDDED = (".spark", ".sql.", ".aio")

for _package in _PACKAGES:
    _found = importlib.import_module(f"{lakeward.__name__}.{_package}")
    for _module in pkgutil.walk_packages(_found.__path__, f"{_found.__name__}."):
        if not any(part in f"{_module.name}." for part in _NOT_EMBEDDED):
            importlib.import_module(_module.name)
