"""The records of the lake as text for people, one function to a record."""
