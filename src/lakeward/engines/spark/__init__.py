"""Spark: a session configured for the lake, and work on branches by plain table names."""
