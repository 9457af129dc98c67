"""Changes of a table's definition, inside a transaction."""
