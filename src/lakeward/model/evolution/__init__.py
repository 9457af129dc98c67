"""Changes of a table's definition: what can be asked for, what comes of it, and what still fits."""
