"""The `Pipeline` that users declare and run, and how it is loaded from a file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from lakeward.context import LakeLike, context_of
from lakeward.errors import InvalidInput, NotFound
from lakeward.pipeline.declaration import Declaration
from lakeward.pipeline.preview import PipelinePlan, preview
from lakeward.pipeline.results import RunResult
from lakeward.pipeline.run import Observer, run


class Pipeline(Declaration):
    """Steps from sources to tables. A run of all of them is one transaction.

    Args:
        name: By which the log knows what was taken in: it must not change.
    """

    def plan(self, lake: LakeLike, *, landing: str | None = None) -> PipelinePlan:
        """What a run would do now; nothing is changed.

        Args:
            lake: Where the tables are.
            landing: Where landing directories are; the working directory unless given.

        Raises:
            NotFound: There is no such landing directory.
            SchemaMismatch: A table is not what its step declares.
        """
        return preview(self, context_of(lake), landing)

    def run(
        self,
        lake: LakeLike,
        spark: Any,
        *,
        landing: str | None = None,
        observe: Observer | None = None,
    ) -> RunResult:
        """Take in what is new, in one transaction over all tables.

        What was taken in is recorded in that transaction, so each input has its effect once,
        whatever dies and however often this is run. With nothing new, nothing is committed.

        Args:
            lake: Where the tables are.
            spark: A session that `lakeward.spark.session` made.
            landing: Where landing directories are; the working directory unless given.
            observe: Called with each step as it begins and ends.

        Raises:
            NotFound: There is no such landing directory.
            SchemaMismatch: A table is not what its step declares, or the rows do not fit it.
            StepFailed: A step raised an error of its own. Nothing was committed.
            ExpectationFailed: Rows that a step does not expect. Nothing was committed.
            ConstraintViolation: Rows that a table refuses. Nothing was committed.
            Conflict: Commits of others conflicted with each attempt. Nothing was committed.
        """
        return run(self, lake, spark, landing=landing, observe=observe)


def load(path: Path, name: str | None = None) -> Pipeline:
    """The pipeline that a file declares.

    Args:
        path: A Python file. Modules beside it can be imported by it.
        name: Of the pipeline, where the file declares several.

    Raises:
        NotFound: There is no such file, or no pipeline of that name in it.
        InvalidInput: The file cannot be run, or has several pipelines and none was named.
    """
    if not path.is_file():
        what = f"There is no file {path}."
        raise NotFound(what, path=str(path))
    found = _pipelines(path)
    if name is not None:
        found = [p for p in found if p.name == name]
    if not found:
        wanted = "no pipeline" if name is None else f"no pipeline {name!r}"
        what = f"{path} declares {wanted}."
        raise NotFound(what, hint='Write pipeline = Pipeline("name") in it.', path=str(path))
    if len(found) > 1:
        names = ", ".join(sorted(p.name for p in found))
        what = f"{path} declares several pipelines: {names}."
        raise InvalidInput(what, hint="Say which with --pipeline.", path=str(path))
    return found[0]


def _pipelines(path: Path) -> list[Pipeline]:
    module = ModuleType(f"_lakeward_pipeline_{path.stem}")
    module.__file__ = str(path)
    beside = str(path.parent.absolute())
    sys.path.insert(0, beside)
    try:
        # Not imported: Python would use a stale compiled file of the same second and size.
        exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102  the user's own
    except Exception as error:
        what = f"{path} cannot be run: {type(error).__name__}: {error}."
        raise InvalidInput(what, path=str(path)) from error
    finally:
        sys.path.remove(beside)
    found = [v for v in vars(module).values() if isinstance(v, Pipeline)]
    return list({id(p): p for p in found}.values())
