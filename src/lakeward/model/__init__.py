"""Frozen nouns and pure functions; no I/O."""
