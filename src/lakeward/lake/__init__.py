"""The facade: opens a lake, wires the parts, returns nouns."""
