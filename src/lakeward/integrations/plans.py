"""Encodes plans of DataFusion as bytes, for engines that run parts of a plan in other processes.

It is off unless a flag is set, because an encoded plan fits only one version of DataFusion. A plan
lists the files of the tables that it reads, so their versions are fixed. It can be run on the
machine, and during the lifetime, of the context in which the tables were registered. A table that
is read through a dataset of this process (see `Registration.way`) cannot be in an encoded plan.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.engines.sql.datafusion import new_context
from lakeward.errors import InvalidInput, UnsupportedFeature

FLAG: Final = "LAKEWARD_PLAN_CODECS"
_LOGICAL: Final = "__datafusion_logical_extension_codec__"
_PHYSICAL: Final = "__datafusion_physical_extension_codec__"
_SHOWN: Final = 300


@dataclass(frozen=True, slots=True)
class PlanCodecs:
    """A context that encodes and decodes plans, and the codecs that were installed in it.

    Attributes:
        context: The context; use it instead of the context that was given.
        enabled: Whether the flag is on; otherwise nothing is installed or encoded.
        reason: Why the flag is on or off.
        datafusion: The version of DataFusion, which must be the same on both sides.
        logical: Ids of the installed codecs of logical plans, in addition to DataFusion's.
        physical: Ids of the installed codecs of physical plans, in addition to DataFusion's.
        skipped: The types of given objects that have no codec.
    """

    context: Any = field(repr=False, compare=False)
    enabled: bool
    reason: str
    datafusion: str
    logical: tuple[str, ...] = ()
    physical: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values, for example to keep it as an artefact of a run."""
        names = ("enabled", "reason", "datafusion", "logical", "physical", "skipped")
        return {name: getattr(self, name) for name in names}

    def encode(self, frame: Any) -> bytes:
        """Return the logical plan of a DataFrame of the context as bytes.

        Raises:
            UnsupportedFeature: The flag is off, or no codec can encode a table of the plan.
        """
        self._check()
        try:
            found: bytes = frame.logical_plan().to_bytes(self.context)
        except Exception as error:
            what = f"No codec knows a part of the plan: {str(error)[:_SHOWN]}."
            hint = "Only tables that DataFusion reads itself can be in it: see Registration.way."
            raise UnsupportedFeature(what, hint=hint) from error
        return found

    def decode(self, plan: bytes) -> Any:
        """Return a DataFrame of the context that runs an encoded plan.

        Raises:
            UnsupportedFeature: The flag is off.
            InvalidInput: The installed codecs cannot decode the bytes.
        """
        from datafusion.plan import LogicalPlan

        self._check()
        try:
            found = LogicalPlan.from_bytes(self.context, plan)
            return self.context.create_dataframe_from_logical_plan(found)
        except Exception as error:
            what = f"The bytes are no plan for DataFusion {self.datafusion}: {str(error)[:_SHOWN]}."
            hint = "Use the same version and the same codecs on both sides."
            raise InvalidInput(what, hint=hint) from error

    def _check(self) -> None:
        if not self.enabled:
            what = f"Plans are not encoded: {self.reason}."
            raise UnsupportedFeature(what, hint=f"Give enabled=True, or set {FLAG}=1.")


def plan_codecs(
    context: Any = None, codecs: Sequence[Any] = (), *, enabled: bool | None = None
) -> PlanCodecs:
    """Install codecs of plans in a DataFusion context, if the flag is on.

    Args:
        context: A `datafusion.SessionContext`; a new one unless given.
        codecs: Objects of other libraries that have codecs for their tables and nodes.
        enabled: The flag; the value of `LAKEWARD_PLAN_CODECS` in the environment unless given.

    Raises:
        MissingExtra: DataFusion is not installed.
    """
    found = new_context() if context is None else context
    import datafusion

    version = str(datafusion.__version__)
    reason = "enabled=" if enabled is not None else f"{FLAG} of the environment"
    if enabled is None:
        enabled = os.environ.get(FLAG, "").lower() in ("1", "true", "on")
    if not enabled:
        return PlanCodecs(found, enabled=False, reason=f"{reason} is off", datafusion=version)
    skipped = []
    for codec in codecs:
        if not (hasattr(codec, _LOGICAL) or hasattr(codec, _PHYSICAL)):
            skipped.append(type(codec).__name__)
        if hasattr(codec, _LOGICAL):
            found = found.with_logical_extension_codec(codec)
        if hasattr(codec, _PHYSICAL):
            found = found.with_physical_extension_codec(codec)
    return PlanCodecs(
        found,
        enabled=True,
        reason=f"{reason} is on",
        datafusion=version,
        logical=tuple(found.logical_extension_codec_ids()),
        physical=tuple(found.physical_extension_codec_ids()),
        skipped=tuple(skipped),
    )
