"""Expectations of a table's data, and their measurements."""
