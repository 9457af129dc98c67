"""Policies of tables, declared once for patterns of names."""
