"""Hamilton over a lake: loaders, savers and materializers, a cache by version, and runs.

Importing this module registers `load_from.lake`, `save_to.lake`, `from_.lake` and `to.lake` with
Hamilton, and lets its cache identify a table at a version by the table's id and the version.
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
