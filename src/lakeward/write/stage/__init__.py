"""Rows written as data files that no reader sees yet."""
