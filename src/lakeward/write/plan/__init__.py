"""Plans of the changes that a transaction makes to a table, before anything is written."""
