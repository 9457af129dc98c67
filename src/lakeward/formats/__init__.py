"""Table formats: a contract, and one folder for each format that implements it."""
