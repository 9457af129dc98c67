"""Renders the report of a migration as an HTML page."""

from __future__ import annotations

from html import escape

from lakeward.model.migration import Migration

_STYLE = (
    "body{font-family:sans-serif;margin:2em;max-width:70em}table{border-collapse:collapse}"
    "td,th{border:1px solid #ccc;padding:.3em .6em;text-align:left}.bad{background:#fdd}"
)


def page(found: Migration) -> str:
    """Return a self-contained HTML page."""
    facts = [
        ("source", found.source),
        ("table", f"{found.table} ({found.format}), version {found.version}"),
        ("mode", found.mode.value),
        ("state", found.state),
        ("files", f"{found.files}, of which {found.new_files} new"),
        ("bytes", f"{found.bytes:,}"),
        ("rows", f"{found.rows:,}"),
        ("partitioned by", ", ".join(found.partition_by) or "nothing"),
        ("verified", "the same" if found.is_verified else "not compared, or not the same"),
        ("seconds", f"{found.seconds:.1f}"),
    ]
    lists = [("changed", found.changed), ("deleted", found.deleted), ("notes", found.notes)]
    parts = [
        f"<h1>Migration of {escape(found.source)}</h1>",
        _table(["", ""], [list(fact) for fact in facts]),
        "<h2>Columns</h2>",
        _table(["column", "type"], [list(c) for c in found.columns.items()]),
    ]
    for title, lines in lists:
        if lines:
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            parts.append(f"<h2>{title}</h2><ul>{items}</ul>")
    if found.checks:
        rows = [
            [c.partition, c.column, str(c.rows), c.source, c.table, "same" if c.is_same else "NOT"]
            for c in found.checks
        ]
        header = ["partition", "column", "rows", "source", "table", ""]
        parts += ["<h2>Checksums</h2>", _table(header, rows)]
    title = f"<title>Migration of {escape(found.table)}</title>"
    head = f'<meta charset="utf-8">{title}<style>{_STYLE}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n"


def _table(header: list[str], rows: list[list[str]]) -> str:
    top = "".join(f"<th>{escape(h)}</th>" for h in header) if any(header) else ""
    lines = "".join(
        f"<tr{' class=bad' if row[-1] == 'NOT' else ''}>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in row)
        + "</tr>"
        for row in rows
    )
    return f"<table><tr>{top}</tr>{lines}</table>" if top else f"<table>{lines}</table>"
