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
from lakeward.pipeline.run import Observer, committed, run


class Pipeline(Declaration):
    """Steps that compute tables from sources. A run of all steps is one transaction.

    Args:
        name: The name under which the log records the processed input: it must not change.
    """

    def plan(self, lake: LakeLike, *, landing: str | None = None) -> PipelinePlan:
        """Return what a run would do now, and change nothing.

        Args:
            lake: The lake of the tables.
            landing: The directory of the landing directories; the working directory unless given.

        Raises:
            NotFound: There is no such landing directory.
            SchemaMismatch: A table does not have the schema that its step declares.
        """
        return preview(self, context_of(lake), landing)

    def run(
        self,
        lake: LakeLike,
        spark: Any,
        *,
        landing: str | None = None,
        observe: Observer | None = None,
        run_id: str | None = None,
    ) -> RunResult:
        """Process new input, in one transaction over all tables.

        The processed input is recorded in that transaction, so each input is processed exactly
        once, even after crashes and repeated runs. Without new input, nothing is committed.

        Args:
            lake: The lake of the tables.
            spark: A session that `lakeward.spark.session` made.
            landing: The directory of the landing directories; the working directory unless given.
            observe: Called with each step as it begins and ends.
            run_id: The id of the run and of its transaction, up to 128 letters, digits, `-` and
                `_`; a new one unless given. If a run of this id was committed before, nothing is
                run, and the result of that run is returned: for programs that are restarted and
                do not know whether their run was committed.

        Raises:
            NotFound: There is no such landing directory.
            InvalidInput: The id is invalid, or its transaction was no run of this pipeline.
            UnsupportedFeature: A step writes to an open table, that is one without guard.
            SchemaMismatch: A table does not have the schema that its step declares, or rows do not
                fit the table.
            StepFailed: The function of a step raised an error. Nothing was committed.
            ExpectationFailed: Rows violate an expectation of a step. Nothing was committed.
            ConstraintViolation: Rows violate a constraint of a table. Nothing was committed.
            Conflict: Every attempt conflicted with other commits. Nothing was committed.
        """
        return run(self, lake, spark, landing=landing, observe=observe, run_id=run_id)

    def committed(self, lake: LakeLike, run_id: str) -> RunResult | None:
        """Return the result of a run that was committed, by its id; None if there is none.

        Raises:
            InvalidInput: A transaction of this id was no run of this pipeline.
        """
        return committed(self.name, context_of(lake), run_id)


def load(path: Path, name: str | None = None) -> Pipeline:
    """Return the pipeline that a file declares.

    Args:
        path: A Python file. It can import modules of the same directory.
        name: The name of the pipeline, if the file declares several.

    Raises:
        NotFound: There is no such file, or no pipeline of that name in it.
        InvalidInput: The file cannot be run, or has several pipelines and `name` is not given.
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
