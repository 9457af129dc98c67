"""Expectations of a table's data, and what was measured of them."""
