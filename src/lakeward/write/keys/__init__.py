"""Unique and foreign keys: the index of keys, and the checks of a change before it is ratified."""
