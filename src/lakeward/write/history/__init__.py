"""Changes that return a table to an earlier state: restores of versions, undone transactions."""
