"""What a transaction is going to do to a table, before anything is written."""
