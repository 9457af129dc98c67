"""Transactions whose rows are read and written by Spark."""
