"""The SQL store: every table's log as rows, in SQLite or PostgreSQL."""
