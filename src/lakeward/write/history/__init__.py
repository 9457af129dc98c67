"""Changes that return a table to an earlier state: restored versions and undone transactions."""
