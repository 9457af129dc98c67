"""One row of each key for a merge: the newest; equally new rows that differ are refused."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from lakeward.errors import InvalidInput
from lakeward.model.quoting import identifier
from lakeward.pipeline.declaration import Mode, Step
from lakeward.pipeline.results import SAMPLE, Notice, counted

_RANK: Final = "_lakeward_rank"
_NUMBER: Final = "_lakeward_number"
_OF_KEY: Final = "_lakeward_of_key"
_MOST: Final = "_lakeward_most"
_KINDS: Final = "_lakeward_kinds"
_FRAME: Final = "{rows}"
ORDER: Final = "_lakeward_order"
"""The column that orders the changes of a key when changes are applied; not in the table."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The newest rows of each key of a step (possibly several), and the table's columns."""

    step: Step
    rows: Any
    columns: list[str]

    @classmethod
    def of(cls, step: Step, rows: Any) -> Candidates:
        """Return the rows of a step; of a step with a key, only the newest rows of each key."""
        columns = [c for c in rows.columns if c != ORDER]
        if not step.has_key:
            return cls(step, rows, columns)
        key = ", ".join(map(identifier, step.key))
        by = ORDER if step.mode is Mode.APPLY else step.latest
        newest = key if by is None else f"{identifier(by)} DESC NULLS LAST"
        window = f"PARTITION BY {key} ORDER BY {newest}"
        ranked = rows.selectExpr(
            "*",
            f"rank() OVER ({window}) AS {_RANK}",
            f"row_number() OVER ({window}) AS {_NUMBER}",
            f"count(*) OVER (PARTITION BY {key}) AS {_OF_KEY}",
        )
        return cls(step, ranked.filter(f"{_RANK} = 1").drop(_RANK), columns)

    def kept(self) -> Candidates:
        """Return the same rows, persisted, so that Spark computes them once."""
        return replace(self, rows=self.rows.persist())

    def unique(self) -> tuple[Any, list[Notice]]:
        """Return one row of each key, and notices of rows left out.

        Raise `InvalidInput` if equally new rows of one key differ.
        """
        step, rows = self.step, self.rows
        if not step.has_key:
            return rows, []
        undated = "0" if step.latest is None else f"count_if({identifier(step.latest)} IS NULL)"
        found = rows.selectExpr(
            f"count_if({_NUMBER} > 1) AS same",
            f"coalesce(sum({_OF_KEY}) FILTER (WHERE {_NUMBER} = 1), 0) - count(*) AS older",
            f"{undated} AS undated",
        ).first()
        if found["same"]:
            self._check_same()
        # Several changes of a key are normal, and need no notice.
        older = 0 if step.mode is Mode.APPLY else found["older"]
        left_out = {
            "rows_superseded": (older, "with a newer row of the same key left out"),
            "rows_the_same": (found["same"], "left out, because another one is the same"),
            "rows_without_latest": (
                found["undated"],
                f"without a value of {step.latest}: taken only where the table has no such key",
            ),
        }
        table = str(step.target)
        notices = [
            Notice(kind, table, f"{table}: {counted(int(count), 'row')} {what}.", int(count))
            for kind, (count, what) in left_out.items()
            if count
        ]
        own = rows.filter(f"{_NUMBER} = 1").select(*map(identifier, self.columns))
        return own, notices

    def _check_same(self) -> None:
        """Raise `InvalidInput` if rows of one key differ."""
        key = ", ".join(map(identifier, self.step.key))
        most = f"max({_NUMBER}) OVER (PARTITION BY {key}) AS {_MOST}"
        several = self.rows.selectExpr("*", most).filter(f"{_MOST} > 1")
        # Spark cannot compare maps: then two rows of one key count as two that differ.
        has_map = "map<" in self.rows.schema.simpleString()
        whole = f"struct({', '.join(map(identifier, self.columns))})"
        kinds = "count(*)" if has_map else f"count(DISTINCT {whole})"
        text = f"SELECT {key}, {kinds} AS {_KINDS} FROM {_FRAME} GROUP BY {key}"  # noqa: S608  quoted
        counted_kinds = self.rows.sparkSession.sql(_braced(text), rows=several)
        differing = counted_kinds.filter(f"{_KINDS} > 1").select(*map(identifier, self.step.key))
        sample = [row.asDict(recursive=True) for row in differing.limit(SAMPLE).collect()]
        if sample:
            raise self._ambiguous(differing.count(), sample)

    def _ambiguous(self, count: int, sample: list[dict[str, Any]]) -> InvalidInput:
        step = self.step
        table = str(step.target)
        if step.mode is Mode.APPLY:
            why = "which one commit changed, so that none of them is the last"
            hint = "Give as key= columns that are unique in the table whose changes are applied."
        elif step.latest is None:
            why = "and has no latest= to say which of them is the newest"
            hint = "Give latest=, or return one row of each key."
        else:
            why = f"which are equally new by {step.latest} and differ"
            hint = f"Return one row of each key and {step.latest}."
        what = (
            f"The step for {table} gives several rows for {counted(count, 'key')}"
            f" ({', '.join(step.key)}), {why}: {sample[0]}."
        )
        return InvalidInput(
            what, hint=f"Nothing was committed. {hint}", table=table, count=count, sample=sample
        )


def _braced(text: str) -> str:
    """Escape all braces of a statement for Spark's formatter, except those of the frame."""
    escaped = text.replace("{", "{{").replace("}", "}}")
    return escaped.replace(f" FROM {{{_FRAME}}} ", f" FROM {_FRAME} ")
