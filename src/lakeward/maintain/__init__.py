"""Keeping a lake healthy: ordinary users of the two paths."""
