"""Spark: a session that knows the lake, and work on branches by plain table name."""
