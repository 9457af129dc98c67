"""The read path: name → snapshot (versions pinned) → plan (files pruned in SQL) → engine."""
