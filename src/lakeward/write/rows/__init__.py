"""Rows of existing files updated, merged and deleted."""
