"""The facade: opens a lake, wires the parts and returns nouns."""
