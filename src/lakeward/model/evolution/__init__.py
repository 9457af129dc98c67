"""Alterations of a table's definition: their kinds and application, and which files still fit."""
