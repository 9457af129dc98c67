"""The SQL store: tables, migrations, heads, files, locks, audit."""
