"""The demo that `lakeward demo` plays: a lake shown end to end, every step checked."""

from __future__ import annotations

from pathlib import Path

from lakeward_demo.view import DemoView


def opened(
    directory: Path, *, embedded: bool, scale: float, master: str | None, kept: bool
) -> DemoView:
    """The demo in a directory, ready to be played: on Spark, or without it (`embedded`)."""
    from lakeward_demo import story

    if embedded:
        from lakeward_demo import steps

        scenes = story.play(story.Stage(directory), steps.STEPS)
        return DemoView(directory, scenes, kept=kept, embedded=True)
    from lakeward_demo import spark_story

    stage = spark_story.SparkStage(directory, scale=scale, master=master)
    scenes = story.play(stage, spark_story.STEPS)
    return DemoView(directory / "lake", scenes, kept=kept, embedded=False)
