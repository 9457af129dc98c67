"""Operators of Airflow on a lake. A retry of a task commits nothing a second time.

The transaction's id is made from the task instance without its try number. A lake commits an id
once, and a later transaction of the same id does nothing and returns what the first one did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator

import lakeward as lw
from lakeward.errors import ExpectationFailed
from lakeward.integrations.airflow.hook import DEFAULT, LakewardHook

if TYPE_CHECKING:
    from lakeward.pipeline import RunResult
    from lakeward.pipeline.pipeline import Pipeline


def transaction_id(context: Mapping[str, Any]) -> str:
    """Return the transaction id of a task instance, the same for every try."""
    own = context["ti"]
    parts = (own.dag_id, own.task_id, own.run_id, str(getattr(own, "map_index", -1)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class LakewardOperator(BaseOperator):
    """Base class of the operators.

    Args:
        lake_conn_id: The connection of the lake.
        **kwargs: The arguments of every operator.
    """

    def __init__(self, *, lake_conn_id: str = DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id

    def lake(self) -> lw.Lake:
        """Open the lake."""
        return LakewardHook(self.lake_conn_id).get_conn()


class LakewardSqlOperator(LakewardOperator):
    """Runs SQL statements in one transaction, without Spark.

    Args:
        sql: A statement, or several statements.
        message: Why; kept with the commit.
    """

    template_fields: ClassVar[Sequence[str]] = ("sql", "message")

    def __init__(
        self, *, sql: str | Sequence[str], message: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.sql = sql
        self.message = message

    def execute(self, context: Any) -> dict[str, int]:
        """Run the statements; return the new version of each table."""
        statements = [self.sql] if isinstance(self.sql, str) else list(self.sql)
        with self.lake() as lake:
            own = transaction_id(context)
            with lake.transaction(transaction_id=own, message=self.message) as tx:
                for statement in statements:
                    tx.sql(statement)
            return dict(tx.commit().versions)


class LakewardPipelineOperator(LakewardOperator):
    """Runs a pipeline on Spark: processes new input, in one transaction over all its tables.

    The run's id is made from the task instance. So a task that is killed after its commit and tried
    again commits nothing a second time, and returns the result of the first try. If there is no new
    input, Spark is not started and nothing is committed.

    Args:
        pipeline: A Python file with a pipeline.
        name: The name of the pipeline, if the file has several.
        landing: The directory of the landing directories; that of the file unless given.
        master: Spark's master; this machine unless given.
        conf: More settings of the Spark session.
    """

    template_fields: ClassVar[Sequence[str]] = ("pipeline", "name", "landing", "master")

    def __init__(
        self,
        *,
        pipeline: str,
        name: str | None = None,
        landing: str | None = None,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pipeline = pipeline
        self.name = name
        self.landing = landing
        self.master = master
        self.conf = conf

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the pipeline; return the run's id, the new versions by table, and rows by table."""
        from lakeward.pipeline.pipeline import load

        path, own = Path(self.pipeline), transaction_id(context)
        landing = str(path.parent) if self.landing is None else self.landing
        declared = load(path, self.name)
        with self.lake() as lake:
            done = declared.committed(lake, own)
            if done is None and declared.plan(lake, landing=landing).has_news:
                done = self._run(declared, lake, landing, own)
        if done is None:
            return {"pipeline": declared.name, "run_id": None, "versions": {}, "rows": {}}
        return {
            "pipeline": declared.name,
            "run_id": done.run_id,
            "versions": dict(done.versions),
            "rows": {step.table: step.rows for step in done.steps},
        }

    def _run(self, declared: Pipeline, lake: lw.Lake, landing: str, run_id: str) -> RunResult:
        from lakeward.spark import session

        spark = session(lake, master=self.master, **(self.conf or {}))
        try:
            return declared.run(lake, spark, landing=landing, run_id=run_id)
        finally:
            spark.stop()


class LakewardOptimizeOperator(LakewardOperator):
    """Compacts the files of a table, or clusters its rows by the columns `zorder`."""

    template_fields: ClassVar[Sequence[str]] = ("table", "where")

    def __init__(
        self,
        *,
        table: str,
        zorder: Sequence[str] | None = None,
        where: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.zorder = zorder
        self.where = where

    def execute(self, context: Any) -> str:  # noqa: ARG002  Airflow's contract
        """Optimize the table; return the state of the maintenance run."""
        with self.lake() as lake:
            done = lake.table(self.table).optimize(zorder=self.zorder, where=self.where)
        return str(done.state)


class LakewardVacuumOperator(LakewardOperator):
    """Deletes the files that no version within the retention needs."""

    template_fields: ClassVar[Sequence[str]] = ("table", "retention")

    def __init__(self, *, table: str, retention: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.retention = retention

    def execute(self, context: Any) -> str:  # noqa: ARG002  Airflow's contract
        """Vacuum the table; return the state of the maintenance run."""
        with self.lake() as lake:
            done = lake.table(self.table).vacuum(retention=self.retention)
        return str(done.state)


class LakewardQualityOperator(LakewardOperator):
    """Measures the expectations of a table, and fails if one is not met.

    Args:
        table: The table.
        expectations: Expectations in addition to those of the table's policy.
        fail: Whether to fail if an expectation is not met.
    """

    template_fields: ClassVar[Sequence[str]] = ("table",)

    def __init__(
        self,
        *,
        table: str,
        expectations: Mapping[str, Any] | None = None,
        fail: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.expectations = expectations
        self.fail = fail

    def execute(self, context: Any) -> dict[str, float | None]:  # noqa: ARG002  Airflow's contract
        """Measure the expectations; return the value of each.

        Raises:
            ExpectationFailed: An expectation is not met, and `fail` is true.
        """
        with self.lake() as lake:
            found = lake.table(self.table).quality(expectations=self.expectations)
        if self.fail and not found.passed:
            names = ", ".join(f"{m.name} ({m.value})" for m in found.failed)
            what = f"Version {found.version} of {self.table} does not meet: {names}."
            raise ExpectationFailed(what, table=self.table)
        return {m.name: m.value for m in found.measurements}


class LakewardMigrateOperator(LakewardOperator):
    """Migrates files or another table into a table, or adds new files; see `Lake.migrate`."""

    template_fields: ClassVar[Sequence[str]] = ("path", "table")

    def __init__(
        self,
        *,
        path: str,
        table: str,
        format: str = "delta",  # noqa: A002  as lake.migrate has it
        mode: str = "copy",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.path = path
        self.table = table
        self.format = format
        self.mode = mode

    def execute(self, context: Any) -> str:  # noqa: ARG002  Airflow's contract
        """Migrate; return the table's name."""
        with self.lake() as lake:
            lake.migrate(self.path, self.table, format=self.format, mode=self.mode)
        return self.table
