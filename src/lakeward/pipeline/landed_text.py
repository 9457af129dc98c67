"""Reads new landing files of CSV or JSON lines as the declared columns.

A row that does not fit the declared columns is rejected: it is written to `<table>__rejected`, in
the transaction of the run, with the reason and its file. No value becomes null because it could not
be read. The columns of a CSV file are found by the names in its header, in any order.

Only methods of the frames are used, so that Spark need not be imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from lakeward.errors import SchemaMismatch
from lakeward.model.quoting import identifier, literal
from lakeward.pipeline.file_kinds import FileFormat
from lakeward.pipeline.plan import NewFiles
from lakeward.pipeline.results import SAMPLE, Notice, counted, named
from lakeward.write.transaction.transaction import Transaction

REJECTED: Final = "__rejected"
REJECTED_SCHEMA: Final = "_record string, _reason string, _file string, _transaction string"
_RECORD: Final = "_lakeward_record"
_REASON: Final = "_lakeward_reason"
_FILE: Final = "_lakeward_file"
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_DATE: Final = re.compile(r"(?<![^:<,])date(?=[>,]|$)")
_NO_CSV: Final = ("struct<", "array<", "map<", "binary", "variant")


def landed_text(tx: Transaction, found: NewFiles, table: str) -> tuple[Any, list[Notice]]:
    """Return the rows that fit the declared columns, and notices; reject the other rows."""
    wanted = tx.spark.createDataFrame([], found.schema).schema.fields
    read = _csv if found.kind.format is FileFormat.CSV else _json
    rows = read(tx, found, table, wanted)
    columns = [identifier(f.name) for f in wanted]
    kept = rows.filter(f"{_REASON} IS NULL").select(*columns)
    notices = _names(found, table, [f.name for f in wanted])
    rejected = rows.filter(f"{_REASON} IS NOT NULL").selectExpr(
        f"{_RECORD} AS _record",
        f"{_REASON} AS _reason",
        f"{_FILE} AS _file",
        f"{literal(tx.transaction_id)} AS _transaction",
    )
    count = rejected.count()
    if count:
        sample = tuple(f"{r._reason}: {r._record}" for r in rejected.limit(SAMPLE).collect())
        tx.append(f"{table}{REJECTED}", rejected)
        who = counted(count, "row")
        message = f"{who} of {found.directory} went to {table}{REJECTED}: {sample[0]}"
        notices.append(Notice("rows_rejected", table, message, count, sample))
    return kept, notices


def _csv(tx: Transaction, found: NewFiles, table: str, wanted: Sequence[Any]) -> Any:
    for field in wanted:
        if field.dataType.simpleString().startswith(_NO_CSV):
            kind = field.dataType.simpleString()
            what = f"Column {field.name} of {found.directory} is {kind}, which CSV cannot hold."
            hint = "Declare it as text, or take JSON lines."
            raise SchemaMismatch(what, hint=hint, table=table, column=field.name)
    groups: dict[tuple[str, ...], list[str]] = {}
    for file in found.files:
        names = tuple(found.schemas[file.path].names) or tuple(f.name for f in wanted)
        groups.setdefault(names, []).append(found.directory.to_read(file.path))
    frames = [_csv_alike(tx, found, wanted, names, paths) for names, paths in groups.items()]
    out = frames[0]
    for more in frames[1:]:
        out = out.unionByName(more)
    return out


def _csv_alike(
    tx: Transaction,
    found: NewFiles,
    wanted: Sequence[Any],
    names: Sequence[str],
    paths: Sequence[str],
) -> Any:
    """Read files whose columns have these names, in this order.

    Values are read as text and converted here, so that values that cannot be converted are
    detected.
    """
    texts = [f"_{n}" for n in range(len(names))]
    raw = (
        tx.spark.read.schema(", ".join(f"{t} STRING" for t in (*texts, _RECORD)))
        .option("header", str(found.kind.header).lower())
        .option("sep", found.kind.delimiter)
        .option("escape", '"')
        .option("multiLine", "true")
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", _RECORD)
        .csv(list(paths))
    )
    place = {n.strip().lower(): t for n, t in zip(names, texts, strict=True)}
    columns, reasons = [], []
    for field in wanted:
        kind, text = field.dataType.simpleString(), place.get(field.name.lower())
        value = f"CAST(NULL AS {kind})" if text is None else f"try_cast({text} AS {kind})"
        columns.append(f"{value} AS {identifier(field.name)}")
        if text is not None and kind != "string":
            bad = f"{text} IS NOT NULL AND {_is_other(text, value, kind)}"
            reasons.append(f"WHEN {bad} THEN {literal(f'{field.name} is no {kind}')}")
    many = f"WHEN {_RECORD} IS NOT NULL THEN 'it has not {counted(len(names), 'field')}'"
    sep = f"map('sep', {literal(found.kind.delimiter)})"
    return raw.selectExpr(
        *columns,
        f"CASE {' '.join([many, *reasons])} END AS {_REASON}",
        f"coalesce({_RECORD}, to_csv(struct({', '.join(texts)}), {sep})) AS {_RECORD}",
        f"_metadata.file_path AS {_FILE}",
    )


def _is_other(text: str, value: str, kind: str) -> str:
    """Return a SQL condition that is true if a text is not a value of a type."""
    wide = _uncut(kind, "timestamp_ntz")
    if wide == kind:
        return f"{value} IS NULL"
    return f"({value} IS NULL OR coalesce(try_cast({text} AS {wide}) <> {value}, true))"


def _uncut(kind: str, of_date: str) -> str:
    """Return a type in which Spark cuts no value that it rounds or truncates for a given type.

    A cast to a decimal rounds what has more decimal places; a cast to a date ignores the time.
    """
    wide = _DECIMAL.sub(lambda m: f"decimal(38,{38 - int(m[1]) + int(m[2])})", kind)
    return _DATE.sub(of_date, wide)


def _json(tx: Transaction, found: NewFiles, table: str, wanted: Sequence[Any]) -> Any:  # noqa: ARG001
    kinds = {f.name: f.dataType.simpleString() for f in wanted}
    fields = [f"{identifier(name)} {kind}" for name, kind in kinds.items()]
    schema = literal(", ".join([*fields, f"{_RECORD} STRING"]))
    # Read once more in types that cut nothing, and compared: as JSON, since maps have no equality.
    cut = {n: (_uncut(k, "string"), _uncut(k, "timestamp_ntz")) for n, k in kinds.items()}
    cut = {n: wide for n, wide in cut.items() if wide[1] != kinds[n]}
    texts = literal(", ".join(f"{identifier(n)} {text}" for n, (text, _) in cut.items()))
    others = [f"from_json(value, {texts}) AS uncut"] if cut else []
    reasons = [
        f"WHEN to_json(struct(CAST(row.{identifier(n)} AS {wide}) AS v))"
        f" <> to_json(struct(try_cast(uncut.{identifier(n)} AS {wide}) AS v))"
        f" THEN {literal(f'{n} is no {kinds[n]}')}"
        for n, (_, wide) in cut.items()
    ]
    options = f"map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{_RECORD}')"
    lines = tx.spark.read.text([found.directory.to_read(f.path) for f in found.files])
    parsed = lines.filter("trim(value) <> ''").selectExpr(
        "value",
        f"_metadata.file_path AS {_FILE}",
        f"from_json(value, {schema}, {options}) AS row",
        *others,
    )
    bad = f"WHEN row IS NULL OR row.{_RECORD} IS NOT NULL"
    reasons.insert(0, f"{bad} THEN 'it is no JSON object of the declared types'")
    return parsed.selectExpr(
        *(f"row.{identifier(f.name)}" for f in wanted),
        f"CASE {' '.join(reasons)} END AS {_REASON}",
        f"value AS {_RECORD}",
        _FILE,
    )


def column_notices(
    found: NewFiles,
    table: str,
    extra: Sequence[str],
    lacking: Sequence[str],
    files: Sequence[str],
) -> Iterator[Notice]:
    """Yield notices of columns that are not declared, and of columns that some files lack."""
    if extra:
        what = f"Columns of {found.directory} that schema= does not name are not read:"
        message = f"{what} {named(extra)}."
        yield Notice("columns_not_read", table, message, len(extra), tuple(extra)[:SAMPLE])
    if files:
        who = counted(len(files), "new file")
        message = (
            f"{who} of {found.directory} without {named(lacking)}, which is null there:"
            f" {named(files)}."
        )
        yield Notice("columns_missing", table, message, len(files), tuple(files)[:SAMPLE])


def _names(found: NewFiles, table: str, wanted: Sequence[str]) -> list[Notice]:
    """Return notices of columns that are not declared, and of columns that some files lack."""
    declared = {n.lower() for n in wanted}
    extra: dict[str, None] = {}
    lacking: dict[str, None] = {}
    files: list[str] = []
    for file in found.files:
        names = found.schemas[file.path].names
        extra.update(dict.fromkeys(n for n in names if n.strip().lower() not in declared))
        has = {n.strip().lower() for n in names}
        missing = [n for n in wanted if n.lower() not in has]
        # An object of JSON leaves out what is null.
        if names and missing and found.kind.format is FileFormat.CSV:
            lacking.update(dict.fromkeys(missing))
            files.append(file.path)
    return list(column_notices(found, table, list(extra), list(lacking), files))
