"""Parses users' SQL over tables of the lake, rewrites the table names, and runs it on an engine."""
