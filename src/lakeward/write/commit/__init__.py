"""The commit: checks against other commits, insertion into the log, publication."""
