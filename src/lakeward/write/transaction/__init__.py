"""The transaction: its tables, its reads, its locks and its conflicts."""
