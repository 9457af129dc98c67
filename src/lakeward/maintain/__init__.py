"""Maintenance of a lake: compaction, vacuum, checks, backups. It uses the read and write paths."""
