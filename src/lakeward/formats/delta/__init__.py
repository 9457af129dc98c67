"""Delta Lake: `_delta_log` files from the log's commits, and the log's nouns from `_delta_log` files."""
