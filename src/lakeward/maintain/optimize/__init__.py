"""Compaction and clustering: packs small files, sorts or clusters rows, purges deleted rows."""
