"""Pipelines as text: what a run would do, what it did, and its record in the log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from lakeward.cli.output import words

if TYPE_CHECKING:
    from lakeward.lake.records import RunRecord
    from lakeward.pipeline import RunResult
    from lakeward.pipeline.preview import PipelinePlan


def plan(found: PipelinePlan) -> Iterator[RenderableType]:
    """Show the steps in their order, with their new input."""
    yield words.heading(f"Pipeline {found.pipeline}, one transaction:")
    yield words.grid(
        ["table", "format", "mode", "runs", "from"],
        (
            (
                s.table,
                s.format,
                s.mode,
                "yes" if s.runs else "nothing new",
                "; ".join(_source(i) for i in s.inputs.values()),
            )
            for s in found.steps
        ),
    )
    yield from _noted(n.message for n in found.notices)


def result(found: RunResult) -> Iterator[RenderableType]:
    """Show the steps of a run, and the versions that they wrote."""
    if not found.committed:
        yield Text(f"{found.pipeline}: nothing new, nothing committed.")
        yield from _noted(n.message for n in found.notices)
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
    yield from _noted(n.message for n in found.notices)
    yield Text.assemble(
        ("committed", "green"), f" as transaction {found.run_id} in {found.seconds:.1f} s"
    )


def runs(found: Sequence[RunRecord]) -> Iterator[RenderableType]:
    """Show runs, one line per run."""
    if not found:
        yield Text("No pipeline has run.")
        return
    yield words.grid(
        ["run", "pipeline", "state", "started", "seconds", "rows", "what"],
        (
            (
                r.run,
                r.pipeline,
                Text(r.state, style="green" if r.state == "ratified" else "red"),
                words.moment(datetime.fromisoformat(r.started)),
                "–" if r.seconds is None else str(r.seconds),
                words.number(r.bundle.get("quality", {}).get("rows")),
                str(r.bundle.get("error", {}).get("message", "")),
            )
            for r in found
        ),
        right=["seconds", "rows"],
    )


def run(found: RunRecord) -> Iterator[RenderableType]:
    """Show the most important facts of one run; `--json` has all."""
    bundle = found.bundle
    yield words.heading(f"Run {found.run} of {found.pipeline}")
    pairs = [("state", found.state), ("started", str(bundle.get("started")))]
    if "error" in bundle:
        pairs.append(("error", str(bundle["error"]["message"])))
        if bundle["error"].get("step"):
            pairs.append(("step", str(bundle["error"]["step"])))
    if "code" in bundle:
        pairs.append(("code", str(bundle["code"]["sha256"])))
    pairs.append(("seconds", str(bundle.get("seconds", "–"))))
    yield words.facts(pairs)
    yield words.grid(["input", "new"], ((i["source"], _taken(i)) for i in bundle.get("inputs", [])))
    before, after = bundle.get("versions_in", {}), bundle.get("versions_out", {})
    yield words.grid(
        ["table", "from version", "to version"],
        ((n, str(before.get(n, "–")), str(v)) for n, v in after.items()),
        right=["from version", "to version"],
    )
    yield from _noted(n["message"] for n in bundle.get("notices", []))


def _noted(messages: Iterable[str]) -> Iterator[RenderableType]:
    for message in messages:
        yield Text.assemble(("notice", words.WARNING), f"  {message}")


def _source(source: Mapping[str, Any]) -> str:
    if "landing" in source:
        count = words.counted(source["files"], "new file")
        return f"{source['landing']}: {count}, {words.size(source['bytes'])}"
    if "whole" in source:
        return f"all of {source['whole']}"
    what = ["rows of this run"] if source["this_run"] else []
    if source["versions"]:
        what.append(words.counted(len(source["versions"]), "new version"))
    table = source["new"] if "new" in source else f"changes of {source['changes']}"
    return f"{table}: {' and '.join(what) or 'nothing new'}"


def _taken(source: Mapping[str, Any]) -> str:
    if "path" in source:
        return f"{source['path']} ({words.size(source['size'])}, {source['checksum'][:19]}…)"
    return f"versions {', '.join(map(str, source['versions']))}"
