"""The command line: each command calls the lake."""
