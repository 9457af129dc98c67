"""Hamilton over a lake: loaders, savers and materializers, a cache by version, and runs.

Importing this module makes `load_from.lake`, `save_to.lake`, `from_.lake` and `to.lake` known to
Hamilton, and teaches its cache that a table at a version is its id and its version.
"""

from __future__ import annotations

from lakeward.errors import MissingExtra

try:
    from lakeward.integrations.hamilton.adapters import LakeLoader, LakeSaver, register
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "hamilton":
        raise
    _WHAT = "This needs Hamilton."
    raise MissingExtra(_WHAT, hint="Run: pip install 'lakeward[hamilton]'.") from error
from lakeward.integrations.hamilton.run import LakeRun, Target, run

__all__ = ["LakeLoader", "LakeRun", "LakeSaver", "Target", "run"]

register()
