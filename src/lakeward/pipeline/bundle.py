"""A run's progress, and its bundle: the record of the run as JSON, in the log and on disk."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import heads
from lakeward.log.runs import Run
from lakeward.model.clock import now_ms, to_datetime
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.pipeline import code
from lakeward.pipeline.declaration import Declaration, Step
from lakeward.pipeline.plan import PlannedStep
from lakeward.pipeline.results import Notice, StepResult

_PACKAGES: Final = ("lakeward", "pyarrow", "pyspark", "delta-spark", "deltalake", "pyiceberg")


@dataclass
class Progress:
    """A run so far.

    `began` and `since` are monotonic times: of the run, and of the step `at_work`. `seen` has the
    version at which a table was read, by source, where it is not the planned one.
    """

    pipeline: Declaration
    started_ms: int = field(default_factory=now_ms)
    began: float = field(default_factory=time.monotonic)
    steps: list[StepResult] = field(default_factory=list)
    planned: Sequence[PlannedStep] = ()
    notices: list[Notice] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    at_work: Step | None = None
    since: float = 0.0
    run_id: str = ""
    attempts: int = 1


def known(
    progress: Progress, bases: Mapping[str, int], engines: Mapping[str, str]
) -> dict[str, Any]:
    """The bundle before the commit: inputs, versions that were read, steps, engines."""
    return plain(
        {
            "pipeline": progress.pipeline.name,
            "run": progress.run_id,
            "started": to_datetime(progress.started_ms).isoformat(),
            "attempts": progress.attempts,
            "code": code.of_pipeline(
                {str(s.target): (s.code, s.declared) for s in progress.pipeline.steps()}
            ),
            "inputs": _inputs(progress),
            "versions_in": dict(bases),
            "steps": [_step(s) for s in progress.steps],
            "quality": {
                "rows": sum(s.rows for s in progress.steps),
                "dropped": sum(sum(s.dropped.values()) for s in progress.steps),
                "warned": sum(sum(s.warned.values()) for s in progress.steps),
            },
            "notices": [n.to_json() for n in progress.notices],
            "violations": [],
            "engines": dict(engines),
        }
    )


def completed(
    before: Mapping[str, Any], context: LakeContext, versions: Mapping[str, int], seconds: float
) -> dict[str, Any]:
    """The bundle after the commit: with the new versions and tables."""
    return plain(
        {
            **before,
            "versions_out": dict(versions),
            "tables": {name: _table(context, name) for name in sorted(versions)},
            "seconds": round(seconds, 3),
        }
    )


def failed(before: Mapping[str, Any], progress: Progress, error: BaseException) -> dict[str, Any]:
    """The bundle of a run that failed and committed nothing."""
    now = time.monotonic()
    facts: dict[str, Any] = {}
    message = str(error)
    if isinstance(error, LakewardError):
        facts, message = dict(error.facts), error.what
    at_work = progress.at_work
    failure = {
        "type": type(error).__name__,
        "message": message,
        "facts": facts,
        "step": None if at_work is None else str(at_work.target),
        "step_seconds": None if at_work is None else round(now - progress.since, 3),
    }
    violation = [failure] if "count" in facts else []
    seconds = round(now - progress.began, 3)
    return plain({**before, "error": failure, "violations": violation, "seconds": seconds})


def engines(spark: Any) -> dict[str, str]:
    """The versions of Python, Spark and the packages that a run uses."""
    out = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            continue
    out["spark"] = str(spark.version)
    return out


def file_name(row: Run) -> str:
    """The path of a bundle below the directory of bundles."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in row.pipeline)
    return f"{name}/{row.run_id}.json"


def text(bundle: Mapping[str, Any]) -> bytes:
    """A bundle as the file has it."""
    return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def plain(value: Any) -> dict[str, Any]:
    """Convert a value to plain JSON values."""
    dumped = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    found: dict[str, Any] = orjson.loads(dumped)
    return found


def fingerprint(definition: Definition) -> str:
    """A hash of a schema: names, types, order, nullability and ids."""
    body = orjson.dumps(definition.schema.to_json(), option=orjson.OPT_SORT_KEYS)
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def _step(step: StepResult) -> dict[str, Any]:
    shown = ("table", "mode", "rows", "seconds", "dropped", "warned")
    return {**{n: getattr(step, n) for n in shown}, "seconds": round(step.seconds, 3)}


def _inputs(progress: Progress) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for planned in progress.planned:
        for new in planned.files.values():
            found += [
                {
                    "source": new.source,
                    "path": new.directory.full(f),
                    "size": f.size,
                    "checksum": f.checksum,
                }
                for f in new.files
            ]
        found += [
            {
                "source": t.source,
                "table": str(t.head.name),
                "since": None if t.before is None else t.before.version,
                "versions": list(t.versions),
            }
            for t in planned.tables.values()
            if t.versions
        ]
    return found


def _table(context: LakeContext, name: str) -> dict[str, Any]:
    with context.database.read() as session:
        head = heads.get(session, TableName.parse(name))
        definition = context.definition(session, head)
    return {
        "format": head.format,
        "location": context.storage.uri(head.location),
        "protocol": dict(definition.protocol),
        "schema": fingerprint(definition),
    }
