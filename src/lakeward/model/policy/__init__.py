"""Policies of tables, set once for patterns of names."""
