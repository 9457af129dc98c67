"""Foreign tools, one module or folder each, behind an extra of the same name."""
