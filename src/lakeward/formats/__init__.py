"""How table formats spell the log: one folder each, none knows its sibling."""
