"""A run's bundle: everything that is known of it, as plain JSON for the log and for disk."""

from __future__ import annotations

import hashlib
import platform
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import orjson

from lakeward.context import LakeContext
from lakeward.errors import LakewardError
from lakeward.log import heads
from lakeward.log.runs import Run
from lakeward.model.clock import to_datetime
from lakeward.model.definition import Definition
from lakeward.model.names import TableName
from lakeward.pipeline import code

if TYPE_CHECKING:
    from lakeward.pipeline.run import Progress

_PACKAGES: Final = ("lakeward", "pyarrow", "pyspark", "delta-spark", "deltalake", "pyiceberg")


def known(
    progress: Progress, bases: Mapping[str, int], engines: Mapping[str, str]
) -> dict[str, Any]:
    """What is known before the commit: inputs, versions that were read, steps, engines."""
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
            "steps": [
                {
                    "table": s.table,
                    "mode": s.mode,
                    "rows": s.rows,
                    "seconds": round(s.seconds, 3),
                    "dropped": dict(s.dropped),
                    "warned": dict(s.warned),
                }
                for s in progress.steps
            ],
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
    """The whole of it: what came out, too."""
    return plain(
        {
            **before,
            "versions_out": dict(versions),
            "tables": {name: _table(context, name) for name in sorted(versions)},
            "seconds": round(seconds, 3),
        }
    )


def failed(before: Mapping[str, Any], progress: Progress, error: BaseException) -> dict[str, Any]:
    """What is known of a run that ended with an error, of which nothing was committed."""
    now = time.monotonic()
    facts: dict[str, Any] = {}
    message = str(error)
    if isinstance(error, LakewardError):
        facts, message = dict(error.facts), error.what
    at_work = progress.at_work
    told = {
        "type": type(error).__name__,
        "message": message,
        "facts": facts,
        "step": None if at_work is None else str(at_work.target),
        "step_seconds": None if at_work is None else round(now - progress.since, 3),
    }
    violation = [told] if "count" in facts else []
    seconds = round(now - progress.began, 3)
    return plain({**before, "error": told, "violations": violation, "seconds": seconds})


def engines(spark: Any) -> dict[str, str]:
    """The versions of everything that works on a run."""
    out = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            out[package] = version(package)
        except PackageNotFoundError:
            continue
    out["spark"] = str(spark.version)
    return out


def file_name(row: Run) -> str:
    """Where a bundle is kept, below the directory of bundles."""
    name = "".join(c if c.isalnum() or c in "-_." else "_" for c in row.pipeline)
    return f"{name}/{row.run_id}.json"


def text(bundle: Mapping[str, Any]) -> bytes:
    """A bundle as it is kept on disk."""
    return orjson.dumps(bundle, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS) + b"\n"


def plain(value: Any) -> dict[str, Any]:
    """A value with nothing in it that JSON does not know."""
    dumped = orjson.dumps(value, default=str, option=orjson.OPT_NON_STR_KEYS)
    found: dict[str, Any] = orjson.loads(dumped)
    return found


def fingerprint(definition: Definition) -> str:
    """Tells schemas apart: names, types, order, nullability and ids."""
    body = orjson.dumps(definition.schema.to_json(), option=orjson.OPT_SORT_KEYS)
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


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
