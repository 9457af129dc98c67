"""The answers of commands, as text and as JSON."""
