"""Updates, merges and deletes of rows in existing files."""
