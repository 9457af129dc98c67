"""Operators of Airflow on a lake. A retry of a task commits nothing a second time.

The transaction's id is made from the task instance without its try number. A lake commits an id
once, and a later transaction of the same id does nothing and returns what the first one did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

import lakeward as lw
from lakeward.errors import ExpectationFailed
from lakeward.integrations.airflow.hook import DEFAULT, LakewardHook


def transaction_id(context: Mapping[str, Any]) -> str:
    """The id of the transaction of a task instance, the same for every try."""
    own = context["ti"]
    parts = (own.dag_id, own.task_id, own.run_id, str(getattr(own, "map_index", -1)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


class LakewardOperator(BaseOperator):
    """What the operators have in common.

    Args:
        lake_conn_id: The connection of the lake.
        **kwargs: As in every operator.
    """

    def __init__(self, *, lake_conn_id: str = DEFAULT, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lake_conn_id = lake_conn_id

    def lake(self) -> lw.Lake:
        """Open the lake."""
        return LakewardHook(self.lake_conn_id).get_conn()


class LakewardSqlOperator(LakewardOperator):
    """Runs statements of SQL in one transaction, without Spark.

    Args:
        sql: A statement, or several.
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
        """Run them; return the new version of each table."""
        statements = [self.sql] if isinstance(self.sql, str) else list(self.sql)
        with self.lake() as lake:
            own = transaction_id(context)
            with lake.transaction(transaction_id=own, message=self.message) as tx:
                for statement in statements:
                    tx.sql(statement)
            return dict(tx.commit().versions)


class LakewardOptimizeOperator(LakewardOperator):
    """Compacts the files of a table, or sorts them by `zorder`."""

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
        """Compact; return the state of the run."""
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
        """Vacuum; return the state of the run."""
        with self.lake() as lake:
            done = lake.table(self.table).vacuum(retention=self.retention)
        return str(done.state)


class LakewardQualityOperator(LakewardOperator):
    """Measures the expectations of a table, and fails if one is not met.

    Args:
        table: The table.
        expectations: More than those of its policy.
        fail: Whether to fail; otherwise the values are returned.
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
        """Measure; return the value of each expectation."""
        with self.lake() as lake:
            found = lake.table(self.table).quality(expectations=self.expectations)
        if self.fail and not found.passed:
            names = ", ".join(f"{m.name} ({m.value})" for m in found.failed)
            what = f"Version {found.version} of {self.table} does not meet: {names}."
            raise ExpectationFailed(what, table=self.table)
        return {m.name: m.value for m in found.measurements}


class LakewardMigrateOperator(LakewardOperator):
    """Makes a table of files, or of a table of the other format, or brings it up to date."""

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
