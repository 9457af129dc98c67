"""The answers of commands: each knows its JSON and its text."""
