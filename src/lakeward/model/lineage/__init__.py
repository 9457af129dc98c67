"""Where the rows and columns of tables come from."""
