"""Pipelines: what a run would do, what it did, and what is kept of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words
from lakeward.cli.output.base import View
from lakeward.log.runs import Run
from lakeward.model.clock import to_datetime
from lakeward.pipeline import Landing, New, Notice, Pipeline, RunResult
from lakeward.pipeline.plan import Plan


@dataclass(frozen=True, slots=True)
class PlanView(View):
    """What a run would do."""

    pipeline: str
    steps: tuple[dict[str, Any], ...]
    notices: tuple[Notice, ...]

    @classmethod
    def of(cls, pipeline: Pipeline, planned: Plan) -> PlanView:
        """Every step, with what is new for it."""
        fresh = {p.step.target: p for p in planned.steps}
        steps = []
        for step in pipeline.steps():
            found = fresh.get(step.target)
            sources = {}
            for name, source in step.inputs.items():
                if isinstance(source, Landing):
                    files = found.files[name].files if found else ()
                    sources[name] = {
                        "landing": source.path,
                        "files": len(files),
                        "bytes": sum(f.size for f in files),
                    }
                elif isinstance(source, New):
                    versions = found.tables[name].versions if found and name in found.tables else ()
                    sources[name] = {
                        "new": str(source.table),
                        "this_run": bool(found and name in found.upstream),
                        "versions": list(versions),
                    }
                else:
                    sources[name] = {"whole": str(source.table)}
            steps.append(
                {
                    "table": str(step.target),
                    "format": step.table["format"],
                    "mode": step.mode.value,
                    "runs": found is not None,
                    "inputs": sources,
                }
            )
        return cls(pipeline.name, tuple(steps), planned.notices)

    def to_json(self) -> dict[str, Any]:
        """`{"pipeline": …, "steps": […], "notices": […]}`."""
        notices = [n.to_json() for n in self.notices]
        return {"pipeline": self.pipeline, "steps": list(self.steps), "notices": notices}

    def to_text(self) -> Iterator[RenderableType]:
        """The steps in their order."""
        yield words.heading(f"Pipeline {self.pipeline}, one transaction:")
        yield words.grid(
            ["table", "format", "mode", "runs", "from"],
            (
                (
                    s["table"],
                    s["format"],
                    s["mode"],
                    "yes" if s["runs"] else "nothing new",
                    "; ".join(_source(i) for i in s["inputs"].values()),
                )
                for s in self.steps
            ),
        )
        yield from _noted(n.to_json() for n in self.notices)


@dataclass(frozen=True, slots=True)
class ResultView(View):
    """What a run did."""

    result: RunResult

    @classmethod
    def nothing(cls, pipeline: str, notices: Sequence[Notice]) -> ResultView:
        """Of a run that had nothing to do."""
        return cls(RunResult(pipeline, None, notices=notices))

    def to_json(self) -> dict[str, Any]:
        """The bundle, where there is one."""
        if not self.result.committed:
            notices = [n.to_json() for n in self.result.notices]
            return {"pipeline": self.result.pipeline, "committed": False, "notices": notices}
        return {**self.result.bundle, "committed": True, "bundle": self.result.bundle_path}

    def to_text(self) -> Iterator[RenderableType]:
        """The steps, and the versions they made."""
        found = self.result
        if not found.committed:
            yield Text(f"{found.pipeline}: nothing new, nothing committed.")
            yield from _noted(n.to_json() for n in found.notices)
            return
        yield words.grid(
            ["table", "version", "rows", "left out", "seconds"],
            (
                (
                    s.table,
                    str(found.versions.get(s.table, "–")),
                    words.number(s.rows),
                    words.number(sum(s.dropped.values())),
                    f"{s.seconds:.1f}",
                )
                for s in found.steps
            ),
            right=["version", "rows", "left out", "seconds"],
        )
        yield from _noted(n.to_json() for n in found.notices)
        yield Text.assemble(
            ("committed", "green"), f" as transaction {found.run_id} in {found.seconds:.1f} s"
        )


@dataclass(frozen=True, slots=True)
class RunsView(View):
    """Runs, newest first."""

    runs: tuple[Run, ...]

    def to_json(self) -> dict[str, Any]:
        """`{"runs": […]}`, without the bundles."""
        return {
            "runs": [
                {
                    "run": r.run_id,
                    "pipeline": r.pipeline,
                    "state": r.state,
                    "started": words.moment(to_datetime(r.started_ms)),
                    "seconds": r.bundle.get("seconds"),
                    "versions": r.bundle.get("versions_out", {}),
                }
                for r in self.runs
            ]
        }

    def to_text(self) -> Iterator[RenderableType]:
        """One line to a run."""
        if not self.runs:
            yield Text("No pipeline has run.")
            return
        yield words.grid(
            ["run", "pipeline", "state", "started", "seconds", "rows", "what"],
            (
                (
                    r.run_id,
                    r.pipeline,
                    Text(r.state, style="green" if r.state == "ratified" else "red"),
                    words.moment(to_datetime(r.started_ms)),
                    str(r.bundle.get("seconds", "–")),
                    words.number(r.bundle.get("quality", {}).get("rows")),
                    str(r.bundle.get("error", {}).get("message", "")),
                )
                for r in self.runs
            ),
            right=["seconds", "rows"],
        )


@dataclass(frozen=True, slots=True)
class BundleView(View):
    """One run."""

    run: Run

    def to_json(self) -> dict[str, Any]:
        """The bundle."""
        return self.run.bundle

    def to_text(self) -> Iterator[RenderableType]:
        """What matters of it; `--json` has all."""
        bundle = self.run.bundle
        yield words.heading(f"Run {self.run.run_id} of {self.run.pipeline}")
        pairs = [("state", self.run.state), ("started", str(bundle.get("started")))]
        if "error" in bundle:
            pairs.append(("error", str(bundle["error"]["message"])))
            if bundle["error"].get("step"):
                pairs.append(("step", str(bundle["error"]["step"])))
        if "code" in bundle:
            pairs.append(("code", str(bundle["code"]["sha256"])))
        pairs.append(("seconds", str(bundle.get("seconds", "–"))))
        yield words.facts(pairs)
        yield words.grid(
            ["input", "new"], ((i["source"], _taken(i)) for i in bundle.get("inputs", []))
        )
        before, after = bundle.get("versions_in", {}), bundle.get("versions_out", {})
        yield words.grid(
            ["table", "from version", "to version"],
            ((n, str(before.get(n, "–")), str(v)) for n, v in after.items()),
            right=["from version", "to version"],
        )
        yield from _noted(bundle.get("notices", []))


def _noted(notices: Iterable[dict[str, Any]]) -> Iterator[RenderableType]:
    """A line for each notice."""
    for notice in notices:
        yield Text.assemble(("notice", "yellow"), f"  {notice['message']}")


def _source(source: dict[str, Any]) -> str:
    if "landing" in source:
        count = words.counted(source["files"], "new file")
        return f"{source['landing']}: {count}, {words.size(source['bytes'])}"
    if "whole" in source:
        return f"all of {source['whole']}"
    what = ["rows of this run"] if source["this_run"] else []
    if source["versions"]:
        what.append(words.counted(len(source["versions"]), "new version"))
    return f"{source['new']}: {' and '.join(what) or 'nothing new'}"


def _taken(source: dict[str, Any]) -> str:
    if "path" in source:
        return f"{source['path']} ({words.size(source['size'])}, {source['checksum'][:19]}…)"
    return f"versions {', '.join(map(str, source['versions']))}"
