"""Staging: writes rows as data files that no reader sees yet."""
