"""Delta Lake: `_delta_log` files from the log's commits, and commits from `_delta_log` files."""
