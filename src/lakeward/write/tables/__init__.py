"""Creates, adopts, clones, renames and drops tables."""
