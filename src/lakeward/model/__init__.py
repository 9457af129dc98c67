"""Frozen records and pure functions: names, types, values, expressions, files, commits, locks."""
