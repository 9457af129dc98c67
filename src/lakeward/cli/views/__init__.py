"""The records of the lake as text for people, one function per record."""
