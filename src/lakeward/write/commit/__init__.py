"""The commit: checked against other commits, recorded in the log, published."""
