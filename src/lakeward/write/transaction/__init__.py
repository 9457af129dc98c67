"""The transaction: its tables, its view of them, its locks and its conflicts."""
