"""Spans of transactions, of their steps and of conflicts; they hold no rows and no secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import lakeward as lw
from lakeward.context import context_of
from lakeward.errors import Conflict, ConstraintViolation
from lakeward.integrations.opentelemetry import trace


class Heard:
    """What was exported."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def spans(self, name: str | None = None) -> list[ReadableSpan]:
        found = list(self._exporter.get_finished_spans())
        return [s for s in found if name is None or s.name == f"lakeward {name}"]

    def clear(self) -> None:
        self._exporter.clear()


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def opened(tmp_path: Path, heard: Heard) -> Iterator[lw.Lake]:
    with lw.open(tmp_path / "lake") as lake:
        lake.create("t", {"id": "int64"}, constraints={"positive": "id > 0"})
        lake.create("u", {"id": "int64"}, format="iceberg")
        trace(lake, provider=heard.provider)
        yield lake


def facts(span: ReadableSpan) -> dict[str, Any]:
    return {key.removeprefix("lakeward."): value for key, value in (span.attributes or {}).items()}


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


def own(span: ReadableSpan) -> int:
    context = span.context
    assert context is not None
    return context.span_id


def fail_inside(lake: lw.Lake) -> None:
    with lake.transaction() as tx:
        tx.append("t", [{"id": 5}])
        message = "hidden-error"
        raise RuntimeError(message)


def test_a_transaction_is_a_span_with_its_steps_inside(opened: lw.Lake, heard: Heard) -> None:
    tracer = heard.provider.get_tracer("program")
    with tracer.start_as_current_span("job") as job, opened.transaction() as tx:
        tx.append("t", [{"id": 1}])
        tx.append("u", [{"id": 2}])

    (span,) = heard.spans("transaction")
    assert parent(span) == job.get_span_context().span_id
    assert facts(span) == {
        "transaction_id": tx.transaction_id,
        "isolation": "snapshot",
        "state": "ratified",
        "versions": ("t=1", "u=1"),
        "operations": ("t=WRITE", "u=WRITE"),
        "attempts": 1,
    }
    for name, count in (("operation", 2), ("prepare", 1), ("ratify", 1), ("publish", 1)):
        steps = heard.spans(name)
        assert len(steps) == count, name
        assert {parent(step) for step in steps} == {own(span)}
        for step in steps:
            assert span.start_time is not None
            assert step.start_time is not None
            assert step.end_time is not None
            assert span.start_time - 1_000_000 <= step.start_time <= step.end_time
    assert [facts(s)["table"] for s in heard.spans("operation")] == ["t", "u"]


def test_errors_and_conflicts_are_seen_by_their_class_alone(opened: lw.Lake, heard: Heard) -> None:
    with pytest.raises(ConstraintViolation):
        opened.table("t").append([{"id": -471100004711}])
    (span,) = heard.spans("transaction")
    assert facts(span)["error.type"] == "ConstraintViolation"
    assert facts(span)["state"] == "rolled_back"
    assert span.status.status_code is api.StatusCode.ERROR
    heard.clear()
    opened.table("t").append([{"id": 1}])
    late = opened.transaction()
    late.delete("t", where="id = 1")
    opened.table("t").delete(where="id = 1")
    heard.clear()
    with pytest.raises(Conflict):
        late.commit()
    (span,) = heard.spans("transaction")
    (event,) = span.events
    assert event.name == "conflict"
    assert event.attributes == {
        "lakeward.table": "t",
        "lakeward.attempt": 1,
        "lakeward.resolved": False,
    }
    heard.clear()
    with pytest.raises(RuntimeError):
        fail_inside(opened)
    (span,) = heard.spans("transaction")
    assert facts(span)["error.type"] == "RuntimeError"


def test_spans_have_no_rows_statements_messages_or_texts_of_errors(
    opened: lw.Lake, heard: Heard
) -> None:
    with opened.transaction(message="hidden-message") as tx:
        tx.sql("INSERT INTO t SELECT 471100004711 WHERE 'hidden-text' <> 'x'")
    with pytest.raises(ConstraintViolation), opened.transaction() as tx:
        tx.append("t", [{"id": -471100004711}])
    with pytest.raises(RuntimeError):
        fail_inside(opened)
    text = "".join(span.to_json() for span in heard.spans())
    assert len(heard.spans("transaction")) == 3
    assert "hidden" not in text
    assert "471100004711" not in text


def test_a_tracer_that_fails_changes_nothing_and_tracing_can_be_stopped(
    opened: lw.Lake, heard: Heard, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def start_span(self, *given: Any, **options: Any) -> Any:
            raise OSError

    stop = trace(opened, provider=heard.provider)
    spans: Any = context_of(opened).events.tracer
    spans._tracer = Broken()
    opened.table("t").append([{"id": 1}])
    assert opened.table("t").version == 1
    assert "A span was not made: OSError" in caplog.text
    stop()
    opened.table("t").append([{"id": 2}])
    assert heard.spans() == []
    assert opened.table("t").count() == 2


@pytest.mark.parametrize("step", ["start_span", "use_span", "detach"])
def test_a_tracer_that_fails_does_not_fail_the_run_of_a_pipeline(
    opened: lw.Lake, heard: Heard, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    spans: Any = context_of(opened).events.tracer

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(step)

    @contextmanager
    def broken_at_the_end(*_: Any, **__: Any) -> Iterator[None]:
        yield
        raise OSError(step)

    if step == "start_span":
        monkeypatch.setattr(spans._tracer, "start_span", broken)
    else:
        monkeypatch.setattr(api, "use_span", broken if step == "use_span" else broken_at_the_end)
    with spans.run("nightly") as run:
        run.step("t", 0.1, 1)
        run.end("succeeded", None, {"t": 1})
    with pytest.raises(ZeroDivisionError), spans.run("nightly"):
        raise ZeroDivisionError

    states = [facts(span).get("state") for span in heard.spans("pipeline")]
    assert states == ([] if step == "start_span" else ["succeeded", None])
