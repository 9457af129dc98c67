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
from lakeward.model.tracing import RunSpan
from lakeward.pipeline import code
from lakeward.pipeline.declaration import Declaration, Step
from lakeward.pipeline.plan import PlannedStep
from lakeward.pipeline.results import Notice, StepResult

_PACKAGES: Final = ("lakeward", "pyarrow", "pyspark", "delta-spark", "deltalake", "pyiceberg")


@dataclass
class Progress:
    """The progress of a run.

    `began` and `since` are monotonic times at which the run and the step `at_work` began. `seen`
    has, by source, the version at which a table was read, if it is not the planned version. `span`
    is the span of the run, if it is traced. `versions` are the versions of a run that was committed
    and raised an error all the same.
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
    span: RunSpan | None = None
    versions: Mapping[str, int] | None = None


def known(
    progress: Progress, bases: Mapping[str, int], engines: Mapping[str, str]
) -> dict[str, Any]:
    """Return the bundle before the commit: inputs, versions that were read, steps, engines."""
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
    """Return the bundle after the commit, with the new versions and tables."""
    return plain(
        {
            **before,
            "versions_out": dict(versions),
            "tables": _tables(context, sorted(versions)),
            "seconds": round(seconds, 3),
        }
    )


def failed(before: Mapping[str, Any], progress: Progress, error: BaseException) -> dict[str, Any]:
    """Return the bundle of a run that failed and committed nothing."""
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
    """Return the versions of Python, Spark and the packages that a run uses."""
    out = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            continue
    out["spark"] = str(spark.version)
    return out


def file_name(row: Run) -> str:
    """Return the path of a bundle below the directory of bundles."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in row.pipeline)
    return f"{name}/{row.run_id}.json"


def text(bundle: Mapping[str, Any]) -> bytes:
    """Return the JSON text of a bundle's file."""
    return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def plain(value: Any) -> dict[str, Any]:
    """Convert a value to plain JSON values."""
    dumped = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    found: dict[str, Any] = orjson.loads(dumped)
    return found


def fingerprint(definition: Definition) -> str:
    """Return a hash of a schema: names, types, order, nullability and ids."""
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


def _tables(context: LakeContext, names: Sequence[str]) -> dict[str, Any]:
    """Return descriptions of tables, without those that were dropped or renamed meanwhile."""
    out = {}
    with context.database.read() as session:
        for name in names:
            head = heads.find(session, TableName.parse(name))
            if head is None:
                continue
            definition = context.definition(session, head)
            out[name] = {
                "format": head.format,
                "location": context.storage.uri(head.location),
                "protocol": dict(definition.protocol),
                "schema": fingerprint(definition),
            }
    return out
